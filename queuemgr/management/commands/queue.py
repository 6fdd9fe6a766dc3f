"""`manage.py queue …`: finds the subcommands, runs one, and turns its errors into exit codes."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from queuemgr.base.errors import SluiceError
from queuemgr.base.safe_text import safe_text
from queuemgr.base.unreachable import why_away
from queuemgr.cli.exit_codes import COULD_NOT, UNREACHABLE, USAGE, improve_errors
from queuemgr.cli.first_word import Overview
from queuemgr.cli.output import SafeOutput
from queuemgr.cli.overview import ASKS_FOR_HELP, HelpFormatter, overview
from queuemgr.cli.subcommands import add_parsers, load


def _check_utf8(options: dict[str, Any]) -> None:
    """Bytes of the command line that are no UTF-8 arrive as half surrogate pairs, which no row can hold."""
    for value in options.values():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and any("\ud800" <= character <= "\udfff" for character in text):
                raise CommandError(f"{text[:100]!a} on the command line is not UTF-8", returncode=USAGE)


class Command(BaseCommand):
    help = Overview.help
    requires_system_checks = ()  # Django's checks import every page

    _word = ""
    """The first one of the command line: most subcommands import much that the others need not."""

    def run_from_argv(self, argv: list[str]) -> None:
        self._word = "".join(argv[2:3])
        super().run_from_argv(argv)

    def add_arguments(self, parser: Any) -> None:
        parser.formatter_class, parser.epilog = HelpFormatter, overview()
        add_parsers(parser, {} if self._word in ASKS_FOR_HELP else load(self._word))
        improve_errors(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler)
        try:
            _check_utf8(options)
            if options.get("no_color"):
                os.environ["NO_COLOR"] = "1"  # of what draws tables and screens
            code = options["run"](options, SafeOutput(self.stdout, json=bool(options.get("json"))))
        except SluiceError as error:
            raise CommandError(safe_text(str(error)), returncode=COULD_NOT) from None
        except ValidationError as error:
            raise CommandError(safe_text("; ".join(error.messages)), returncode=COULD_NOT) from None
        except DatabaseError as error:
            raise CommandError(f"the database: {why_away(error)}", returncode=UNREACHABLE) from None
        except KeyboardInterrupt:
            raise CommandError("interrupted", returncode=130) from None
        except BrokenPipeError:  # the reader of a pipe has gone, as in `queue export --jsonl | head`
            # Discards what is still buffered, so that Python reports no error at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 128 + signal.SIGPIPE
        if code:
            raise SystemExit(code)
