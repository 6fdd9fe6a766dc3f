"""Whether somebody in whose name work is done later still may do it.

A request is judged when it comes; what a person started then continues in the background, for hours perhaps,
while accounts are deactivated, roles taken away and tokens revoked. Commands are not judged: who can run them
has the database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import ApiToken
from queuemgr.models.settable import SettableField
from queuemgr.operations import api_tokens, user_model
from queuemgr.operations.controls import COMMAND, Actor


def refusal(by: Actor, permissions: Sequence[str], scope: str) -> str:
    """Why this person may do it no longer, through a token of this scope; empty while they may."""
    if by.source == COMMAND:
        return ""
    # What an earlier release started has a name only.
    user = user_model.named(by.actor) if by.user_id is None else user_model.with_key(by.user_id)
    if user is None:
        return f"the account {by.actor} that started it is gone"
    if not user_model.completed(user).is_active:
        return f"{by.actor} is not active any more"
    lost = [permission for permission in permissions if not user.has_perm(permission)]
    if lost:
        return f"{by.actor} does not have the permission {lost[0]} any more"
    return _refusal_of_token(by.token_id, scope)


def fields_not_for(user: Any, fields: Mapping[str, SettableField]) -> tuple[str, ...]:
    """The names of those fields that this user may not set."""
    return tuple(name for name, field in fields.items() if not user.has_perm(f"queuemgr.{field.permission}"))


def _refusal_of_token(token_id: int | None, scope: str) -> str:
    if token_id is None:
        return ""
    token = ApiToken.objects.prefetch_related("owner").filter(pk=token_id).first()
    if token is None:
        return "the token it was started with was deleted"
    if problem := api_tokens.blocking_reasons(token, database_now()):
        return problem
    return "" if scope in token.scopes else f"token {token.name} does not have the scope {scope} any more"
