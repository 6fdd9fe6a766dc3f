from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User

from queuemgr.base.safe_text import as_json
from queuemgr.cli.arguments import add_reason
from queuemgr.cli.output import by_command, show, table
from queuemgr.operations import roles

NAME = "roles"
HELP = "the roles, who holds them, and how their groups were changed; or reset them"
EXAMPLES = """
  queue roles
  queue roles --reset --reason "after the upgrade"     discards manual changes to the groups
  queue roles --json
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("--reset", action="store_true", help="set each group to the permissions of its role")
    add_reason(parser)
    parser.add_argument("--json", action="store_true", help="JSON Lines, stable names")


def run(options: dict[str, Any], out: Any) -> int:
    roles.make()
    if options["reset"]:
        for role in roles.ROLES:
            roles.reset(role, by_command(options["reason"]))
    found = [_as_dict(role) for role in roles.ROLES]
    if options["json"]:
        for row in found:
            out.write(as_json(row))
    else:
        rows = ([", ".join(v) if isinstance(v, list) else v for v in f.values()] for f in found)
        show(out, table("", list(found[0]), rows))
    return 0


def _as_dict(role: str) -> dict[str, Any]:
    difference = roles.difference(role)
    held_by = User.objects.filter(groups__name=role).order_by("username")
    return {
        "role": role,
        "people": list(held_by.values_list("username", flat=True)),
        "missing": list(difference.lacks),
        "extra": list(difference.besides),
    }
