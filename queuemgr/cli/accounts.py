"""`queue roles`, `queue user` and `queue token`: who may do what in the admin and the API."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from queuemgr.base.errors import BadInput
from queuemgr.base.safe_text import as_json
from queuemgr.base.scheduler_lock import database_now
from queuemgr.cli.arguments import JSON_LINES, JSON_OBJECT, REASON, above_zero
from queuemgr.cli.exit_codes import FINE, SOME_FAILED
from queuemgr.cli.output import by_command, clock, show, table, write_json
from queuemgr.cli.subcommands import Options, group, option, subcommand
from queuemgr.models import ApiToken
from queuemgr.operations import api_tokens, user_model, users
from queuemgr.operations import roles as all_roles
from queuemgr.operations.api_tokens import SCOPES


@subcommand(
    "roles",
    option("--reset", action="store_true", help="set each group to the permissions of its role"),
    REASON,
    JSON_LINES,
)
def roles(options: Options, out: Any) -> None:
    """the roles, who holds them, and how their groups were changed; or reset them

    queue roles
    queue roles --reset --reason "after the upgrade"     discards manual changes to the groups
    queue roles --json
    """
    all_roles.make()
    if options["reset"]:
        for role in all_roles.ROLES:
            all_roles.reset(role, by_command(options["reason"]))
    roles = [_role_as_dict(role) for role in all_roles.ROLES]
    if options["json"]:
        write_json(out, roles)
    else:
        rows = ([", ".join(v) if isinstance(v, list) else v for v in f.values()] for f in roles)
        show(out, table("", list(roles[0]), rows))


def _role_as_dict(role: str) -> dict[str, Any]:
    difference = all_roles.difference(role)
    return {
        "role": role,
        "people": user_model.names_in_group(role),
        "missing": list(difference.lacks),
        "extra": list(difference.besides),
    }


@subcommand(
    "user",
    option("name", help="the account's name"),
    option("--role", required=True, choices=(*all_roles.ROLES, "none"), help="the user's only role"),
    REASON,
    JSON_OBJECT,
)
def user(options: Options, out: Any) -> None:
    """give a user a role in the admin and the API; creates the account if there is none

    queue user ann --role operator && manage.py changepassword ann
    queue user bob --role none --reason "has left"
    """
    account = users.give_role(options["name"], options["role"], by_command(options["reason"]))
    role = "has no role" if options["role"] == "none" else f"is {options['role']}"
    hint = "" if account.has_usable_password() else "; set a password: manage.py changepassword"
    name = user_model.name_of(account)
    out.say(f"{name} {role}{hint}", user=name, role=options["role"], id=account.pk)


group("token", "API tokens: create one (its secret is shown once), list or revoke them")


@subcommand(
    "token create",
    option("name", help="name by which it is listed and revoked"),
    option("--owner", required=True, help="user whose permissions it has at most"),
    option(
        "--scope", action="append", required=True, choices=SCOPES,
        help="; ".join(f"{scope}: {meaning}" for scope, meaning in SCOPES.items()),
    ),
    option(
        "--rate", default="600/minute",
        help='rate limit; format: "600/minute" or "10/s burst 50" (default 600/minute)',
    ),
    option("--days", type=above_zero, help="days until it expires (default never)"),
    REASON,
    option("--json", action="store_true", help="one JSON object, with the secret"),
)  # fmt: skip
def create_token(options: Options, out: Any) -> None:
    """create a token and show its secret, once

    queue token create ci --owner ann --scope read --scope enqueue --days 90
    TOKEN=$(queue token create ci --owner ann --scope read)     standard output has only the secret
    """
    days = options["days"]
    expires_at = database_now() + timedelta(days=days) if days else None
    token, secret = api_tokens.make(
        options["name"], api_tokens.owner_named(options["owner"]), options["scope"],
        by_command(options["reason"]), rate=options["rate"], expires_at=expires_at,
    )  # fmt: skip
    created = {"name": token.name, **api_tokens.serialize(token), "token": secret}
    out.write(as_json(created) if options["json"] else secret)


@subcommand("token list", JSON_LINES)
def list_tokens(options: Options, out: Any) -> None:
    """all tokens, without their secrets

    queue token list --json
    """
    tokens, now = ApiToken.objects.prefetch_related("owner"), database_now()
    if options["json"]:
        write_json(out, (_token_as_dict(token, now) for token in tokens))
        return
    columns = ("name", "owner", "scopes", "rate", "used", "expires", "state")
    show(out, table("", columns, (_token_row(token, now) for token in tokens)))


def _token_as_dict(token: ApiToken, now: datetime) -> dict[str, Any]:
    return {
        "name": token.name,
        **api_tokens.serialize(token),
        "created_at": token.created_at,
        "used_at": token.used_at,
        "revoked_at": token.revoked_at,
        "problem": api_tokens.blocking_reasons(token, now),
    }


def _token_row(token: ApiToken, now: datetime) -> tuple[Any, ...]:
    used, expires = (clock(time) or "never" for time in (token.used_at, token.expires_at))
    owner, scopes = user_model.name_of(token.owner), ", ".join(token.scopes)
    state = api_tokens.blocking_reasons(token, now) or "ok"
    return token.name, owner, scopes, token.rate, used, expires, state


@subcommand("token revoke", option("names", nargs="+", help="names of tokens"), REASON, JSON_OBJECT)
def revoke_tokens(options: Options, out: Any) -> int:
    """revoke tokens for good

    queue token revoke ci --reason "it leaked"
    """
    tokens = {token.name: token for token in ApiToken.objects.filter(name__in=options["names"])}
    unknown = [name for name in options["names"] if name not in tokens]
    if unknown:
        raise BadInput(f"no token is called {', '.join(unknown)}; `queue token list` shows them")
    names = api_tokens.revoke(tokens.values(), by_command(options["reason"]))
    already = [name for name in tokens if name not in names]
    out.say(
        f"{len(names)} revoked, {len(already)} were revoked already",
        revoked=len(names), already=len(already), names=names,
        unchanged=dict.fromkeys(already, "revoked already"),
    )  # fmt: skip
    return SOME_FAILED if already else FINE
