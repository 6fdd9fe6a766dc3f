"""`manage.py queue`: finds the subcommands, runs one, and turns its errors into exit codes."""

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
from queuemgr.cli.exit_codes import COULD_NOT, SUMMARY, UNREACHABLE, improve_errors
from queuemgr.flows.flow import all_phases


def subcommands() -> dict[str, ModuleType]:
    """The modules of `queuemgr.cli` that are subcommands, by name."""
    modules = (
        importlib.import_module(f"{cli.__name__}.{m.name}") for m in pkgutil.iter_modules(cli.__path__)
    )
    return {module.NAME: module for module in modules if hasattr(module, "NAME")}


def after_broken_pipe() -> int:
    """The exit code if the reader of a pipe has gone, as in `queue export --jsonl | head`.

    Discards what is still buffered, so that Python reports no error at exit.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + signal.SIGPIPE


def _examples(module: ModuleType) -> str:
    """Its examples, with a phase there is."""
    return str(module.EXAMPLES).replace("{phase}", next(iter(all_phases()), "phase"))


def _exit_codes(module: ModuleType) -> str:
    return "" if "exit codes" in module.EXAMPLES else f"  {SUMMARY}\n"


class Command(BaseCommand):
    help = "Operate the queue: enqueue, run, watch, explain, pause, retry."
    requires_system_checks = ()  # Django's checks import every page

    def add_arguments(self, parser: Any) -> None:
        parsers = parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")
        for name, module in sorted(subcommands().items()):
            sub = parsers.add_parser(
                name,
                help=module.HELP,
                description=module.HELP,
                epilog="examples:" + _examples(module) + _exit_codes(module),
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
            module.add_arguments(sub)
        improve_errors(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler)
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
            raise CommandError("interrupted", returncode=130) from None
        except BrokenPipeError:
            code = after_broken_pipe()
        if code:
            raise SystemExit(code)
