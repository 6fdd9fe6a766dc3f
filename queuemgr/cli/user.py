from __future__ import annotations

from typing import Any

from queuemgr.cli.arguments import add_reason
from queuemgr.cli.output import by_command
from queuemgr.operations import roles, users

NAME = "user"
HELP = "give a user a role in the admin and the API; creates the account if there is none"
EXAMPLES = """
  queue user ann --role operator && manage.py changepassword ann
  queue user bob --role none --reason "has left"
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("name", help="the account's name")
    parser.add_argument("--role", required=True, choices=(*roles.ROLES, "none"), help="the user's only role")
    add_reason(parser)


def run(options: dict[str, Any], out: Any) -> int:
    user = users.give_role(options["name"], options["role"], by_command(options["reason"]))
    role = "has no role" if options["role"] == "none" else f"is {options['role']}"
    hint = "" if user.has_usable_password() else "; set a password: manage.py changepassword"
    out.write(f"{user} {role}{hint}")
    return 0
