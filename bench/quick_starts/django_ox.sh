# django-ox: https://oxpull.com/django-ox/#install. It needs Python 3.12, where `pip install Django` brings Django 6.
NAME=django-ox
source "$(dirname "$0")/counting.sh"
fresh_project python3.12
clock

command_step pip install django-ox

file_step shop/settings.py
install_app django_ox
append <<'PYTHON'
TASKS = {
    "default": {
        "BACKEND": "django_ox.backend.OxBackend",
    }
}
PYTHON

command_step python manage.py migrate django_ox

file_step letters/tasks.py
prepend <<'PYTHON'
from django.tasks import task
PYTHON
replace '^def send' '@task
def send'

background_step python manage.py ox_worker

shell_step <<'PYTHON'
from letters.tasks import send
send.enqueue(to="ann@example.org")
PYTHON

report none
