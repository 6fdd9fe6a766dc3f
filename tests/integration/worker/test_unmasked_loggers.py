"""Whatever logger of a worker is written to, in production and with debug pages on: no secret is printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fork_server import ForkServer
from tests.shell import alone

MARK = "marked-secret-of-logs"
LOG_EVERYWHERE = f"""
import json, logging, sys, threading
import django; django.setup()
from celery import current_app
from celery.utils.log import get_task_logger
from billiard.util import get_logger
from queuemgr.base.redaction import register_secret
from queuemgr.worker.log_format import JsonFormatter, LineFormatter

register_secret({MARK!r})
current_app.log.setup(loglevel="INFO", redirect_stdouts=True)
get_task_logger("an.application"), get_logger()
names = [name for name, found in logging.root.manager.loggerDict.items() if isinstance(found, logging.Logger)]
for name in ["", "django.request", "django.server", "celery.task", "multiprocessing", "an.other", *names]:
    try:
        raise ValueError({MARK!r})
    except ValueError:
        logging.getLogger(name).error("of %s: %s", name, {MARK!r}, exc_info=True)
print({MARK!r})
sys.stderr.write({MARK!r})
handlers = {{handler for name in ["", *names] for handler in logging.getLogger(name).handlers}}
handlers = [handler for handler in handlers if isinstance(handler, logging.StreamHandler)]
ours = (LineFormatter, JsonFormatter)
bare = [str(handler) for handler in handlers if not isinstance(handler.formatter, ours)]
sys.__stdout__.write(json.dumps([len(names), bare]))
"""


@pytest.mark.parametrize("variables", [{}, {"SLUICE_DEBUG": "true"}, {"SLUICE_LOG_FORMAT": "json"}])
def test_no_logger_of_a_worker_prints_a_secret(
    tmp_path: Path, fork_server: ForkServer, variables: dict[str, str]
) -> None:
    environment = alone(tmp_path, BROKER_URL="redis://127.0.0.1:1/0", **variables)
    out, errors = fork_server.start_piped(["-c", LOG_EVERYWHERE], environment).communicate(60)
    assert b"of django.request: ***" in errors and b"of celery.task: ***" in errors
    assert MARK.encode() not in errors + out
    loggers, bare = json.loads(out)
    assert loggers > 20 and bare == []


UNCAUGHT = f"""
import sys, threading
from tests.fork_server import read_settings_anew
sys.argv = ["celery", "worker", "-Q", "prep.low"]
read_settings_anew()
import django; django.setup()
from queuemgr.base.redaction import register_secret
register_secret({MARK!r})
thread = threading.Thread(target=lambda: int({MARK!r}), name="of-an-application")
thread.start(); thread.join()
raise RuntimeError({MARK!r})
"""


def test_an_error_that_nobody_catches_is_printed_without_secrets(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    environment = alone(tmp_path, BROKER_URL="redis://127.0.0.1:1/0")
    out, errors = fork_server.start_piped(["-c", UNCAUGHT], environment).communicate(60)
    assert errors.count(b"Traceback (most recent call last)") == 2
    assert b"RuntimeError: ***" in errors and b"ValueError" in errors
    assert MARK.encode() not in errors + out
