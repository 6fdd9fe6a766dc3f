"""Which program is given which secrets; no other is in its environment or its memory.

The fleet on one machine, `manage.py worker` and compose.yaml follow this table. A program started by hand
with more in its environment drops the rest. Commands of a person, such as `manage.py queue`, have all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

DATABASE = frozenset({"DATABASE_URL", "PGPASSWORD"})
BROKER = frozenset({"BROKER_URL"})
TRACES = frozenset({"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"})
FILES = frozenset(
    {"SLUICE_STORAGE_OPTIONS", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}
)
SOURCES = frozenset({"SLUICE_OPENALEX_API_KEY", "SLUICE_SEMANTICSCHOLAR_API_KEY"})
OCR = frozenset({"SLUICE_OCR_API_KEY"})
WEBHOOKS = frozenset({"SLUICE_WEBHOOK_SECRETS"})
ALERTS = frozenset({"SLUICE_ALERT_DESTINATIONS", "EMAIL_URL"})
MODEL = frozenset({"SLUICE_LLM_API_KEY"})
SESSIONS = frozenset({"DJANGO_SECRET_KEY"})
METRICS = frozenset({"SLUICE_METRICS_TOKEN"})
FLOWER_LOGIN = frozenset({"FLOWER_BASIC_AUTH"})

WORKER = DATABASE | BROKER | TRACES | FILES

PROGRAM_SECRETS: Mapping[str, frozenset[str]] = {
    "web": WORKER | SESSIONS | METRICS,
    "flower": BROKER | FLOWER_LOGIN,
    "beat": BROKER,
    "housekeeping": WORKER | ALERTS | WEBHOOKS,
    "prep": WORKER | SOURCES | OCR,
    "expensive": WORKER | MODEL,
    "wrap": WORKER | WEBHOOKS,
}
"""By program: the web server, Flower, beat, the worker of periodic jobs, and workers by the phases they
serve; a worker of several phases is given the secrets of each."""

WEB_SERVERS = ("serve", "gunicorn", "uvicorn", "hypercorn", "granian", "waitress-serve", "runserver")
CELERY_PROGRAMS = ("worker", "beat", "flower")


def programs(command_line: Sequence[str]) -> tuple[str, ...]:
    """The programs of the table that a command line starts; none for a command of a person, and for a worker
    of queues that are not in the table."""
    program, words = Path(command_line[0]).name if command_line else "", list(command_line[1:])
    if program in ("celery", "__main__.py"):
        kind = next((word for word in words if word in CELERY_PROGRAMS), "")
        if kind == "worker":
            return _known(tuple({queue.partition(".")[0]: None for queue in _queues(words)}))
        if kind:
            return (kind,)
    return ("web",) if any(word in WEB_SERVERS for word in [program, *words[:1]]) else ()


def _queues(words: Sequence[str]) -> list[str]:
    """The queues a worker is told to consume: `-Q a,b`, `-Qa,b`, `--queues a,b` or `--queues=a,b`."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word in ("-Q", "--queues"):
            return following.split(",")
        for start in ("--queues=", "-Q"):
            if word.startswith(start):
                return word.removeprefix(start).split(",")
    return []


def _known(phases: tuple[str, ...]) -> tuple[str, ...]:
    return phases if all(phase in PROGRAM_SECRETS for phase in phases) else ()
