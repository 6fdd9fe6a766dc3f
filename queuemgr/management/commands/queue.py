"""`manage.py queue …`: everything an operator does from a terminal."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import signal
import sys
from types import ModuleType
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from queuemgr import cli
from queuemgr.base.errors import SluiceError
from queuemgr.cli.exit_codes import COULD_NOT, IN_SHORT, UNREACHABLE, told_better


def subcommands() -> dict[str, ModuleType]:
    """The modules of `queuemgr.cli` that are subcommands, by name."""
    modules = (
        importlib.import_module(f"{cli.__name__}.{m.name}")
        for m in pkgutil.iter_modules(cli.__path__)
    )
    return {module.NAME: module for module in modules if hasattr(module, "NAME")}


READER_GONE = 128 + signal.SIGPIPE
"""What a shell says of a program in a pipe whose reader had enough: `queue export --jsonl | head`."""


def reader_gone() -> int:
    """Let what is still buffered go nowhere, so that Python says nothing about it as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return READER_GONE


def _codes(module: ModuleType) -> str:
    return "" if "exit codes" in module.EXAMPLES else f"  {IN_SHORT}\n"


class Command(BaseCommand):
    help = "Work the queue: enqueue, run, watch, explain, pause, retry."
    requires_system_checks = ()  # they import every page; what a command needs it says itself

    def add_arguments(self, parser: Any) -> None:
        parsers = parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")
        for name, module in sorted(subcommands().items()):
            sub = parsers.add_parser(
                name,
                help=module.HELP,
                description=module.HELP,
                epilog="examples:" + module.EXAMPLES + _codes(module),
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
            module.add_arguments(sub)
        told_better(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        for stop in (signal.SIGINT, signal.SIGTERM):
            signal.signal(stop, signal.default_int_handler)
        try:
            code = subcommands()[options["subcommand"]].run(options, self.stdout)
        except SluiceError as error:
            raise CommandError(str(error), returncode=COULD_NOT) from None
        except ValidationError as error:
            raise CommandError("; ".join(error.messages), returncode=COULD_NOT) from None
        except DatabaseError as error:
            raise CommandError(
                f"the database does not answer as it should ({error}): run `manage.py doctor`",
                returncode=UNREACHABLE,
            ) from None
        except KeyboardInterrupt:
            raise CommandError("stopped", returncode=130) from None
        except BrokenPipeError:
            code = reader_gone()
        if code:
            raise SystemExit(code)
