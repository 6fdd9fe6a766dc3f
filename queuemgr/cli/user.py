from __future__ import annotations

from typing import Any

from queuemgr.cli.output import by_command
from queuemgr.operations import roles, users

NAME = "user"
HELP = "give someone a role in the admin and the API, making the account if there is none"
EXAMPLES = """
  queue user ann --role operator && manage.py changepassword ann
  queue user bob --role none --reason "has left"
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("name", help="the account's name")
    parser.add_argument(
        "--role", required=True, choices=(*roles.ROLES, "none"), help="this role and no other"
    )
    parser.add_argument("--reason", default="", help="why, for the record")


def run(options: dict[str, Any], out: Any) -> int:
    user = users.give_role(options["name"], options["role"], by_command(options["reason"]))
    what = "has no role" if options["role"] == "none" else f"is {options['role']}"
    then = "" if user.has_usable_password() else "; set a password: manage.py changepassword"
    out.write(f"{user} {what}{then}")
    return 0
