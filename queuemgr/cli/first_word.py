"""What `manage.py queue` answers before Django reads its settings: its help, and words it does not know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand

from queuemgr.cli.exit_codes import improve_errors
from queuemgr.cli.overview import ASKS_FOR_HELP, COMMANDS, HelpFormatter, overview


class Overview(BaseCommand):
    """The command with its commands' names, and none of their options."""

    help = "Operate the queue: enqueue, run, watch, explain, pause, retry."
    requires_system_checks = ()
    _called_from_command_line = True

    def add_arguments(self, parser: Any) -> None:
        parser.formatter_class, parser.epilog = HelpFormatter, overview()
        below = parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")
        for word in sorted(word for group in COMMANDS.values() for word in group):
            below.add_parser(word)
        improve_errors(parser)


def answer_early(argv: Sequence[str]) -> None:
    """Answer `queue`, `queue --help` and `queue stast`, and end; return for any other command line.

    Django's settings and apps take half a second of processor time, and may be what is wrong.
    """
    program, *words = argv
    if words[:1] != ["queue"]:
        return
    word = "".join(words[1:2])
    known = any(word in group for group in COMMANDS.values())
    if not known and (word in ASKS_FOR_HELP or not word.startswith("-")):
        Overview().create_parser(program, "queue").parse_args(words[1:])
