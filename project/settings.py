"""Django settings: wiring only. Each setting is declared, checked and explained in a `config.py`.

A name in capitals is a setting, which other code may show; what is none is written small.
"""

from __future__ import annotations

import gc
import os
import secrets
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import queuemgr
from pipeline.config import PipelineSettings
from project import program_secrets as table
from project.config import ProjectSettings
from project.database import database, process_name
from project.mail_server import mail_settings
from project.storage import file_storage
from queuemgr.base import masked_tracebacks, program_secrets, secret_environment
from queuemgr.base.config import AlertSettings, LaneSettings, ObservabilitySettings, QueueSettings
from queuemgr.base.credentials import register_environment
from queuemgr.base.errors import ConfigurationError
from queuemgr.base.private_files import make_new_files_private, read_secret, secret_in, tighten
from queuemgr.base.private_memory import keep_private
from queuemgr.flows import flow

# Imports make objects that stay: looking through them after every 700 was a sixth of the time a command took.
# `project.apps` sets it back.
gc.set_threshold(50_000)

could_not_run = 3
"""Exit code of a process started with a configuration that cannot work."""


def stop(problem: str) -> NoReturn:
    """Exit with one line that says what is wrong."""
    sys.stderr.write(f"configuration: {problem}\n")
    raise SystemExit(could_not_run)


ours = (
    "sluice.sqlite3*", "files", "inbox", "scratch", "log", "log/*", "redis", "redis/*", "static", "*.log",
    "beat-schedule*", "private-broker", "secret-key", "*-password", "supervisord*", "*.lock", "*.sock",
)  # fmt: skip
"""What a data directory holds; earlier releases left some of it readable by all."""

SLUICE_PROGRAM_SECRETS = table.PROGRAM_SECRETS
kinds = table.programs(sys.argv)
secret_environment.drop(program_secrets.unneeded(kinds, SLUICE_PROGRAM_SECRETS))
register_environment(os.environ)
secret_environment.hide(program_secrets.all_secrets(SLUICE_PROGRAM_SECRETS))
if kinds:
    masked_tracebacks.install()
    keep_private()
try:
    installation = ProjectSettings.load()
except ConfigurationError as error:
    stop(str(error))

SLUICE_DATA_DIR = (Path(__file__).resolve().parent.parent / installation.data_dir).resolve()
try:
    make_new_files_private()
    SLUICE_DATA_DIR.mkdir(parents=True, exist_ok=True)
    tighten(path for name in ours for path in SLUICE_DATA_DIR.glob(name))
except OSError as error:
    stop(
        f"SLUICE_DATA_DIR={SLUICE_DATA_DIR} cannot be made ({error.strerror}): name a directory you may write"
    )


for pattern in ("*-password", "secret-key", "private-broker"):
    for file in SLUICE_DATA_DIR.glob(pattern):
        with suppress(OSError, UnicodeDecodeError):
            read_secret(file)  # a step that quotes it is masked


def _secret_key() -> str:
    """The configured key, or one made once for this data directory; programs without sessions make one up."""
    configured, made = installation.secret_key.get_secret_value(), partial(secrets.token_urlsafe, 50)
    if kinds and "web" not in kinds:
        return made()  # no sessions here: nobody is to find the real one
    return configured or secret_in(SLUICE_DATA_DIR / "secret-key", made).get_secret_value()


def _database() -> dict[str, Any]:
    try:
        return database(
            installation.database_url.get_secret_value(),
            SLUICE_DATA_DIR,
            transaction_pooling=installation.transaction_pooling,
            process=process_name(sys.argv),
            password=installation.postgres_password.get_secret_value(),
        )
    except ConfigurationError as error:
        stop(str(error))


SECRET_KEY = _secret_key()
DEBUG = installation.debug
ALLOWED_HOSTS = [host.strip() for host in installation.allowed_hosts.split(",")]
CSRF_TRUSTED_ORIGINS = [origin.strip() for origin in installation.trusted_origins.split(",") if origin]
if installation.behind_tls_proxy:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True

INSTALLED_APPS = [
    "project",  # before Django's own, whose account commands it replaces
    "pipeline",
    "pipeline.web",
    "queuemgr",
    "queuemgr.web",
    "django_celery_results",
    "unfold",  # before the admin, whose pages it replaces
    "queuemgr.web.ninja_files.NinjaFiles",
    # urls.py discovers its pages, so that workers and commands import none of them.
    "django.contrib.admin.apps.SimpleAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "project.content_policy.content_policy",
    "queuemgr.web.api.middleware.api_responses",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "queuemgr.web.busy_lock.BusyLock",
    "pipeline.web.storage_errors.StorageErrors",
    "queuemgr.web.crafted_requests.CraftedRequests",
]
ROOT_URLCONF = "project.urls"
WSGI_APPLICATION = "project.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [Path(queuemgr.__file__).parent / "web" / "frame"],  # all of the admin looks as our pages
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
DATABASES = {"default": _database()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

UNFOLD = {
    "SITE_TITLE": "Sluicegate",
    "SITE_HEADER": "Sluicegate",
    "SITE_SYMBOL": "water",
    "SITE_URL": "",
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": "queuemgr.web.admin.theme.favicon"},
    ],
    "STYLES": [
        f"queuemgr.web.admin.theme.{sheet}" for sheet in ("admin", "layout", "list_layout")
    ],
    "DASHBOARD_CALLBACK": "queuemgr.web.admin.dashboard.dashboard",
    "SIDEBAR": {"navigation": "project.sidebar.navigation"},
    "COLORS": {
        "primary": {
            "50": "#eff6ff", "100": "#dbeafe", "200": "#bfdbfe", "300": "#93c5fd", "400": "#60a5fa",
            "500": "#5b9bf8", "600": "#2563eb", "700": "#1d4ed8", "800": "#1e40af", "900": "#1e3a8a",
            "950": "#172554",
        }
    },
}  # fmt: skip

TIME_ZONE = "UTC"
FORMAT_MODULE_PATH = ["project.formats"]
USE_TZ = True
LANGUAGE_CODE = "en-gb"
STATIC_URL = "static/"
STATIC_ROOT = SLUICE_DATA_DIR / "static"
MEDIA_ROOT = SLUICE_DATA_DIR / "files"
DEFAULT_EXCEPTION_REPORTER = "project.debug_pages.MaskedReporter"
DEFAULT_EXCEPTION_REPORTER_FILTER = "project.debug_pages.MaskingFilter"
FILE_UPLOAD_PERMISSIONS = 0o600
FILE_UPLOAD_DIRECTORY_PERMISSIONS = 0o700
LOGIN_REDIRECT_URL = "admin:index"  # also where `next` is not one of our pages
STORAGES = {
    "default": file_storage(installation),
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
SLUICE_CELERY_APP = "project"
SLUICE_ROLE_APPS = ("pipeline", "django_celery_results")
SLUICE_FLOWER_URL = installation.flower_url
SLUICE_INBOX = SLUICE_DATA_DIR / "inbox"
SLUICE_SCRATCH = SLUICE_DATA_DIR / "scratch"
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG


def _broker_url() -> str:
    """The configured broker, or the private one of the fleet in this data directory, or a URL at which
    nothing listens."""
    if configured := installation.broker_url.get_secret_value():
        return configured
    file = SLUICE_DATA_DIR / "private-broker"
    return read_secret(file).get_secret_value() if file.exists() else "redis://127.0.0.1:1/0"


SLUICE_BROKER_VARIABLE = "BROKER_URL"
SLUICE_DATABASE_VARIABLE = "DATABASE_URL"
CELERY_BROKER_URL = _broker_url()
CELERY_RESULT_BACKEND = "disabled://" if kinds == ("flower",) else "django-db"
CELERY_RESULT_EXTENDED = True
CELERY_RESULT_EXPIRES = 24 * 3600
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_TIMEOUT = 2
CELERY_BROKER_TRANSPORT_OPTIONS = (
    {
        "socket_timeout": 5,
        "socket_connect_timeout": 2,
        "connect_retries_timeout": 2,
        "visibility_timeout": 6 * 3600,
    }
    if CELERY_BROKER_URL.startswith(("redis", "unix", "valkey"))
    else {}
)
CELERY_TASK_DEFAULT_QUEUE = flow.HOUSEKEEPING
CELERY_TASK_CREATE_MISSING_QUEUES = True
CELERY_TASK_PUBLISH_RETRY = False
CELERY_TIMEZONE = "UTC"
CELERY_BEAT_SCHEDULER = "queuemgr.worker.beat_scheduler:ReconnectingScheduler"
CELERY_BEAT_SCHEDULE_FILENAME = str(SLUICE_DATA_DIR / "beat-schedule")
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_ENABLE_REMOTE_CONTROL = True

globals().update(mail_settings(installation.email_url.get_secret_value()))
DEFAULT_FROM_EMAIL = installation.email_from

for config in (QueueSettings, LaneSettings, ObservabilitySettings, AlertSettings, PipelineSettings):
    try:
        config.load(globals())
    except ConfigurationError as error:
        stop(str(error))

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"()": "queuemgr.worker.log_format.LineFormatter"},
        "json": {"()": "queuemgr.worker.log_format.JsonFormatter"},
    },
    "filters": {
        "about": {"()": "queuemgr.worker.log_format.AboutStep"},
        "unless_debug": {"()": "django.utils.log.RequireDebugFalse"},
    },
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": ObservabilitySettings.load(globals()).log_format,
            "filters": ["about"],
        },
        "mail_admins": {
            "class": "django.utils.log.AdminEmailHandler",
            "level": "ERROR",
            "filters": ["unless_debug"],
        },
    },
    "root": {"handlers": ["stderr"], "level": os.environ.get("SLUICE_LOG_LEVEL", "INFO")},
    "loggers": {
        # Django's own has a second handler of another form where DEBUG is on, and one for `runserver`.
        "django": {"handlers": ["mail_admins"], "level": "INFO"},
        "django.server": {"handlers": [], "level": "INFO", "propagate": True},
        "httpx": {"level": "WARNING"},
        "httpcore": {"level": "WARNING"},
        "psycopg.pool": {"level": "ERROR"},
        # It warns of every request that waits for a thread, however briefly.
        "waitress.queue": {"level": "ERROR"},
        # One message may run many steps; each step is logged on its own.
        "celery.app.trace": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
    },
}
