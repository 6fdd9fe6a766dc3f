"""The settings of the project, as the environment tells: `WITH` lists what it has (web, unfold)."""

from __future__ import annotations

import json
import os
from pathlib import Path

KIND = os.environ.get("PEOPLE", "stock")

HAS = os.environ.get("WITH", "web").split(",")
SECRET_KEY = "for tests only"
ALLOWED_HOSTS = ["testserver"]
DATABASES = json.loads(os.environ["DATABASES"])
if "queue" in DATABASES:
    SLUICE_DATABASE = "queue"
INSTALLED_APPS = [
    *(["unfold"] if "unfold" in HAS else []),
    "django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions",
    "django.contrib.messages", "django.contrib.staticfiles", "tests.any_project.people", "queuemgr",
    *(["queuemgr.web"] if "web" in HAS else []),
]  # fmt: skip
MIGRATION_MODULES = {"people": "migrations_of_people"}  # made anew, for the kind of account
AUTH_USER_MODEL = "auth.User" if KIND == "stock" else "people.Person"
AUTHENTICATION_BACKENDS = ["tests.any_project.people.backends.Backend"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
MIDDLEWARE = [
    *(["queuemgr.web.api.middleware.api_responses"] if "web" in HAS else []),
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [Path(__file__).parent / "templates"],
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
ROOT_URLCONF = "tests.any_project.urls"
STATIC_URL = "static/"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CELERY_BROKER_URL = "memory://"
CELERY_TASK_PUBLISH_RETRY = False
SLUICE_METRICS_WITHOUT_TOKEN = True
