"""Our settings, as a project has them whose WSGI application is Django's own."""

from project.settings import *  # noqa: F403

WSGI_APPLICATION = None
