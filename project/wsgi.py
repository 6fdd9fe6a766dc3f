"""The application for any web server that speaks WSGI; its processes keep their secrets to themselves."""

import os

from django.core.wsgi import get_wsgi_application

from queuemgr.extend.settings import keep_private, keep_secrets_in_memory

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
keep_private()
application = get_wsgi_application()
keep_secrets_in_memory()
