"""Its settings; the servers are named by the environment."""

import os

SECRET_KEY = "only for measuring"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "bench.sized", "queuemgr"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ["SIZED_NAME"],
        "HOST": "127.0.0.1",
        "PORT": os.environ["SIZED_PORT"],
        "USER": "sluice",
        "PASSWORD": os.environ["SIZED_PASSWORD"],
    }
}
CELERY_BROKER_URL = os.environ["SIZED_BROKER"]
