# dbos: https://docs.dbos.dev/integrations/django. Workflows run in the web process; SQLite is its default.
NAME=dbos
source "$(dirname "$0")/counting.sh"
fresh_project python3.11
clock

command_step pip install dbos

file_step letters/apps.py
prepend <<'PYTHON'
import os
from dbos import DBOS, DBOSConfig
PYTHON
append <<'PYTHON'

    def ready(self):
        dbos_config: DBOSConfig = {
            "name": "django-app",
            "application_version": "0.1.0",
            "system_database_url": os.environ.get("DBOS_SYSTEM_DATABASE_URL"),
        }
        DBOS(config=dbos_config)
        DBOS.launch()
        return super().ready()
PYTHON

file_step letters/tasks.py
prepend <<'PYTHON'
from dbos import DBOS
PYTHON
replace '^def send' '@DBOS.step()
def send'
append <<'PYTHON'


@DBOS.workflow()
def workflow(to):
    send(to)
    return {"result": "success"}
PYTHON

file_step letters/views.py
append <<'PYTHON'
from django.http import JsonResponse
from letters.tasks import workflow

def callWorkflow(request, to):
    return JsonResponse(workflow(to))
PYTHON

file_step shop/urls.py
prepend <<'PYTHON'
from letters.views import callWorkflow
PYTHON
replace '^urlpatterns = \[' "urlpatterns = [
    path('letters/<to>', callWorkflow),"

background_step python manage.py runserver --noreload "127.0.0.1:$WEB_PORT"

page_step "http://127.0.0.1:$WEB_PORT/letters/ann@example.org"

report none
