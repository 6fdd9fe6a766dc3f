"""Its settings; the servers are named by the environment."""

import os

SECRET_KEY = "only for measuring"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "bench.model", "queuemgr"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ["MODEL_DATABASE"],
        "HOST": "127.0.0.1",
        "PORT": os.environ["MODEL_DATABASE_PORT"],
        "USER": "sluice",
        "PASSWORD": os.environ["MODEL_DATABASE_PASSWORD"],
    }
}
CELERY_BROKER_URL = os.environ["BROKER_URL"]
