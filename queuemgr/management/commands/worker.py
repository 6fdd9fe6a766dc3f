"""`manage.py worker`: a plain Celery worker, with its arguments worked out and shown."""

from __future__ import annotations

import os
import shlex
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from queuemgr.cli import knob_options
from queuemgr.errors import ConfigurationError
from queuemgr.flow import HOUSEKEEPING
from queuemgr.knobs import QueueKnobs
from queuemgr.local_fleet import queues_of, worker_command


class Command(BaseCommand):
    help = "Run a Celery worker for these phases: works out the plain `celery worker` command and becomes it."

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("phases", nargs="*", help="phases to serve (default: all)")
        parser.add_argument("--slots", type=knob_options.positive, default=8, help="default 8")
        parser.add_argument("--pool", choices=("threads", "prefork"), default="threads")
        parser.add_argument(
            "--name", default="steps", help="first part of its name (default steps)"
        )
        parser.add_argument(
            "--chores", action="store_true", help="also do housekeeping, in a slot of its own"
        )
        parser.add_argument("--print", action="store_true", help="show the command, do not run it")
        knob_options.add(parser, QueueKnobs)

    def handle(self, *args: Any, **options: Any) -> None:
        knob_options.apply(options)
        try:
            queues = queues_of(options["phases"])
        except ConfigurationError as error:
            raise CommandError(str(error), returncode=3) from None
        slots = options["slots"] + options["chores"]
        queues += [HOUSEKEEPING] if options["chores"] else []
        command = worker_command(slots, options["pool"], queues, options["name"])
        self.stdout.write(shlex.join(command))
        self.stdout.flush()
        if not options["print"]:
            os.execv(command[0], command)  # noqa: S606 - becoming the worker is the point
