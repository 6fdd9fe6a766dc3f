# Procrastinate: https://procrastinate.readthedocs.io/en/stable/howto/django/configuration.html, then "basic usage".
NAME=procrastinate
source "$(dirname "$0")/counting.sh"
fresh_project python3.11
clock

command_step pip install 'procrastinate[django]'

file_step shop/settings.py
install_app procrastinate.contrib.django
replace "^        'ENGINE': .*\n.*" "        'ENGINE': 'django.db.backends.postgresql',
        'HOST': '127.0.0.1',
        'PORT': '$POSTGRES_PORT',
        'USER': '$POSTGRES_USER',
        'NAME': '$POSTGRES_NAME',"

command_step python manage.py migrate

file_step letters/tasks.py
prepend <<'PYTHON'
from procrastinate.contrib.django import app
PYTHON
replace '^def send' '@app.task
def send'

background_step python manage.py procrastinate worker

shell_step <<'PYTHON'
from letters.tasks import send
send.defer(to="ann@example.org")
PYTHON

report PostgreSQL
