"""Django's settings of the press: SQLite and no broker, in the directory PRESS_DIR."""

from __future__ import annotations

import os
from pathlib import Path

SLUICE_DATA_DIR = Path(os.environ["PRESS_DIR"])
SLUICE_CELERY_APP = "press.celery"
SECRET_KEY = "for tests only"
ALLOWED_HOSTS = ["testserver"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": SLUICE_DATA_DIR / "press.sqlite3",
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
    }
}
INSTALLED_APPS = [
    "press",
    "queuemgr",
    "queuemgr.web",
    "unfold",
    "ninja",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
ROOT_URLCONF = "press.urls"
STATIC_URL = "static/"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CELERY_BROKER_URL = "memory://"
CELERY_TASK_PUBLISH_RETRY = False
