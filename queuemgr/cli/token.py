from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from queuemgr.base.errors import BadInput
from queuemgr.base.safe_text import as_json
from queuemgr.base.scheduler_lock import database_now
from queuemgr.cli.arguments import above_zero, add_reason
from queuemgr.cli.output import by_command, show, table
from queuemgr.models import ApiToken
from queuemgr.operations import api_tokens
from queuemgr.operations.api_tokens import SCOPES

NAME = "token"
HELP = "API tokens: create one (its secret is shown once), list or revoke them"
EXAMPLES = """
  queue token create ci --owner ann --scope read --scope enqueue --days 90
  TOKEN=$(queue token create ci --owner ann --scope read)     standard output has only the secret
  queue token list --json
  queue token revoke ci --reason "it leaked"
"""


def add_arguments(parser: Any) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="create|list|revoke")
    _add_create(actions.add_parser("create", help="create a token and show its secret, once"))
    listing = actions.add_parser("list", help="all tokens, without their secrets")
    listing.add_argument("--json", action="store_true", help="JSON Lines, stable names")
    revoking = actions.add_parser("revoke", help="revoke tokens for good")
    revoking.add_argument("names", nargs="+", help="names of tokens")
    add_reason(revoking)


def _add_create(parser: Any) -> None:
    about = "; ".join(f"{scope}: {meaning}" for scope, meaning in SCOPES.items())
    parser.add_argument("name", help="name by which it is listed and revoked")
    parser.add_argument("--owner", required=True, help="user whose permissions it has at most")
    parser.add_argument("--scope", action="append", required=True, choices=SCOPES, help=about)
    parser.add_argument(
        "--rate", default="600/minute",
        help='rate limit; format: "600/minute" or "10/s burst 50" (default 600/minute)',
    )  # fmt: skip
    parser.add_argument("--days", type=above_zero, help="days until it expires (default never)")
    add_reason(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object, with the secret")


def run(options: dict[str, Any], out: Any) -> int:
    {"create": _create, "list": _list, "revoke": _revoke}[options["action"]](options, out)
    return 0


def _create(options: dict[str, Any], out: Any) -> None:
    days = options["days"]
    token, secret = api_tokens.make(
        options["name"],
        api_tokens.owner_named(options["owner"]),
        options["scope"],
        by_command(options["reason"]),
        rate=options["rate"],
        expires_at=database_now() + timedelta(days=days) if days else None,
    )
    created = {"name": token.name, **api_tokens.serialize(token), "token": secret}
    out.write(as_json(created) if options["json"] else secret)


def _list(options: dict[str, Any], out: Any) -> None:
    tokens, now = ApiToken.objects.select_related("owner"), database_now()
    if options["json"]:
        for token in tokens:
            out.write(as_json(_as_dict(token, now)))
        return
    columns = ("name", "owner", "scopes", "rate", "used", "expires", "state")
    show(out, table("", columns, (_row(token, now) for token in tokens)))


def _as_dict(token: ApiToken, now: datetime) -> dict[str, Any]:
    return {
        "name": token.name,
        **api_tokens.serialize(token),
        "created_at": token.created_at,
        "used_at": token.used_at,
        "revoked_at": token.revoked_at,
        "problem": api_tokens.blocking_reasons(token, now),
    }


def _row(token: ApiToken, now: datetime) -> tuple[Any, ...]:
    used, expires = (
        f"{time:%Y-%m-%d %H:%M} UTC" if time else "never" for time in (token.used_at, token.expires_at)
    )
    owner, scopes = token.owner.get_username(), ", ".join(token.scopes)
    state = api_tokens.blocking_reasons(token, now) or "ok"
    return token.name, owner, scopes, token.rate, used, expires, state


def _revoke(options: dict[str, Any], out: Any) -> None:
    found = {token.name: token for token in ApiToken.objects.filter(name__in=options["names"])}
    unknown = [name for name in options["names"] if name not in found]
    if unknown:
        raise BadInput(f"no token is called {', '.join(unknown)}; `queue token list` shows them")
    revoked = api_tokens.revoke(found.values(), by_command(options["reason"]))
    out.write(f"{len(revoked)} revoked, {len(found) - len(revoked)} were revoked already")
