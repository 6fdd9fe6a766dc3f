"""The broker of a fleet on this machine, in a project that can do without one of its own.

Such a project names in `SLUICE_BROKER_VARIABLE` the variable that states its broker. Where that is empty, a
private Redis is started, whose URL the project's settings read from a file in the data directory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from celery import current_app
from django.conf import settings

from queuemgr.base.errors import ConfigurationError
from queuemgr.base.private_files import write_secret
from queuemgr.base.program_secrets import all_secrets, program_secrets
from queuemgr.local.broker_problems import broker_problem
from queuemgr.local.private_servers import RedisServer
from queuemgr.local.supervisor import Program

FILE = "private-broker"


def is_wanted() -> bool:
    """Whether the project takes a private broker, and states no other."""
    variable = getattr(settings, "SLUICE_BROKER_VARIABLE", "")
    return bool(variable) and not os.environ.get(variable)


@contextmanager
def broker_of(directory: Path) -> Iterator[list[Program]]:
    """The program of the private broker; none where the project has another, which must pass messages.

    While it runs, its URL is in a file of the data directory, for commands in another terminal. Raises
    `ConfigurationError` when the project's own broker passes no message within seconds.
    """
    if not is_wanted():
        if problem := broker_problem():
            raise ConfigurationError(str(problem))
        yield []
        return
    redis = RedisServer(directory / "redis")
    url_file = directory / FILE
    write_secret(url_file, redis.url)
    current_app.conf.update(broker_url=redis.url, broker_read_url=redis.url, broker_write_url=redis.url)
    try:
        needs_no_secret = dict.fromkeys(sorted(all_secrets(program_secrets())), "")
        yield [Program("redis", redis.command, order=10, environment=needs_no_secret)]
    finally:
        url_file.unlink(missing_ok=True)
