# Dramatiq with django_dramatiq on Redis: https://github.com/Bogdanp/django_dramatiq#installation.
#
# Its settings name two middlewares that need more than it says: the package prometheus-client, and the tables of
# `migrate` (which only its example mentions). Without them the task runs, beside tracebacks.
NAME=dramatiq
source "$(dirname "$0")/counting.sh"
fresh_project python3.11
clock

command_step pip install django-dramatiq 'dramatiq[redis,prometheus]'

file_step shop/settings.py
install_app django_dramatiq
append <<PYTHON
DRAMATIQ_BROKER = {
    "BROKER": "dramatiq.brokers.redis.RedisBroker",
    "OPTIONS": {
        "url": "$REDIS_URL",
    },
    "MIDDLEWARE": [
        "dramatiq.middleware.prometheus.Prometheus",
        "dramatiq.middleware.AgeLimit",
        "dramatiq.middleware.TimeLimit",
        "dramatiq.middleware.Callbacks",
        "dramatiq.middleware.Retries",
        "django_dramatiq.middleware.DbConnectionsMiddleware",
        "django_dramatiq.middleware.AdminMiddleware",
    ]
}
DRAMATIQ_TASKS_DATABASE = "default"
PYTHON

command_step python manage.py migrate

file_step letters/tasks.py
prepend <<'PYTHON'
import dramatiq
PYTHON
replace '^def send' '@dramatiq.actor
def send'

background_step python manage.py rundramatiq

shell_step <<'PYTHON'
from letters.tasks import send
send.send("ann@example.org")
PYTHON

report Redis
