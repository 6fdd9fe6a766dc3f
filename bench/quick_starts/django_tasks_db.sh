# django-tasks-db on the backport that Django 5.2 needs: https://github.com/RealOrangeOne/django-tasks-db#installation.
NAME=django-tasks-db
source "$(dirname "$0")/counting.sh"
fresh_project python3.11
clock

command_step pip install 'django-tasks-db[compat]'

file_step shop/settings.py
install_app django_tasks_db
append <<'PYTHON'
TASKS = {
    "default": {
        "BACKEND": "django_tasks_db.DatabaseBackend",
        "QUEUES": ["default"]
    }
}
PYTHON

command_step python manage.py migrate

file_step letters/tasks.py
prepend <<'PYTHON'
from django_tasks import task
PYTHON
replace '^def send' '@task()
def send'

background_step python manage.py db_worker

shell_step <<'PYTHON'
from letters.tasks import send
send.enqueue(to="ann@example.org")
PYTHON

report none
