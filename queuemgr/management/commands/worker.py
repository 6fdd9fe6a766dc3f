"""`manage.py worker`: computes the `celery worker` command for some phases, prints and executes it."""

from __future__ import annotations

import os
import shlex
from argparse import BooleanOptionalAction
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from queuemgr.base.config import LaneSettings, QueueSettings, lane_settings
from queuemgr.base.errors import ConfigurationError
from queuemgr.base.migrating import migrate
from queuemgr.base.program_secrets import program_secrets, unneeded
from queuemgr.base.safe_text import as_json
from queuemgr.base.unreachable import why_away
from queuemgr.cli import config_options, output
from queuemgr.cli.exit_codes import UNREACHABLE
from queuemgr.flows.flow import HOUSEKEEPING, all_phases
from queuemgr.local.local_fleet import queues_of, worker_command
from queuemgr.scheduling.phase_settings import phase_settings_group
from queuemgr.steptools.lanes import LaneSetting
from queuemgr.steptools.process_lanes import lanes


def _environment(phases: Sequence[str], *, housekeeping: bool) -> dict[str, str]:
    """This one, without the secrets of phases the worker does not serve."""
    programs = [*(phases or all_phases()), *([HOUSEKEEPING] if housekeeping else [])]
    others = unneeded(programs, program_secrets())
    return {name: value for name, value in os.environ.items() if name not in others}


def _migrate(verbosity: int) -> None:
    try:
        migrate(verbosity=verbosity)
    except DatabaseError as error:
        raise CommandError(f"the database: {why_away(error)}", returncode=UNREACHABLE) from None


class Command(BaseCommand):
    help = "Run a Celery worker for these phases: computes the `celery worker` command and executes it."

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("phases", nargs="*", help="phases to serve (default: all)")
        parser.add_argument("--pool", choices=("threads", "prefork"), default="threads")
        parser.add_argument("--name", default="steps", help="first part of its name (default steps)")
        parser.add_argument(
            "--housekeeping",
            action=BooleanOptionalAction,
            help="also run periodic jobs, in an extra slot (default: if no phases are named)",
        )
        parser.add_argument(
            "--migrate", action="store_true", help="first apply migrations, unless another worker does"
        )
        parser.add_argument("--print", action="store_true", help="print the command, do not run it")
        parser.add_argument(
            "--explain",
            action="store_true",
            help="show its concurrency and where each value comes from; run nothing",
        )
        parser.add_argument("--json", action="store_true", help="with --explain: JSON")
        config_options.add(parser, LaneSettings)
        config_options.add(parser, phase_settings_group())
        config_options.add(parser, QueueSettings)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            config_options.apply(options)
            queues, settings = queues_of(options["phases"]), lanes().settings
        except ConfigurationError as error:
            raise CommandError(str(error), returncode=3) from None
        if options["explain"]:
            self._explain(settings, options["json"])
            return
        if options.get("migrate") and not options["print"]:
            _migrate(options["verbosity"])
        jobs = options["housekeeping"]
        jobs = not options["phases"] if jobs is None else jobs
        slots = lane_settings().slots + jobs
        queues += [HOUSEKEEPING] if jobs else []
        command = worker_command(slots, options["pool"], queues, options["name"])
        self.stdout.write(shlex.join(command))
        self.stdout.flush()
        if not options["print"]:
            environment = _environment(options["phases"], housekeeping=jobs)
            os.execve(command[0], command, environment)  # noqa: S606 - becoming the worker is intended

    def _explain(self, settings: tuple[LaneSetting, ...], json: bool) -> None:
        if json:
            self.stdout.write(as_json([asdict(setting) for setting in settings]))
            return
        rows = [(s.name, s.value, s.source, s.rule) for s in settings]
        output.show(self.stdout, output.table("", ("setting", "value", "source", "rule"), rows))
