"""Links to what a thing's name stands for, and to what can be done to it, wherever the name is shown.

An action leads to a page that says what the thing is now and what would follow, asks for the reason, and
leads back (`queuemgr.web.admin.named_actions`).
"""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.html import format_html

from queuemgr.operations.user_model import User
from queuemgr.reporting.remedies import FAILURES, LIMIT, QUEUE, WORKER, Thing
from queuemgr.web.links import address, link


@dataclass(frozen=True, slots=True)
class ActLink:
    """`label`: as the link says it; `permission`: the codename of who may."""

    label: str
    permission: str


ACT_LINKS = {
    (LIMIT, "pause"): ActLink("Pause", "pause_limit"),
    (LIMIT, "resume"): ActLink("Resume", "pause_limit"),
    (LIMIT, "unblock"): ActLink("Unblock", "pause_limit"),
    (LIMIT, "cap"): ActLink("Change the cap", "change_limit"),
    (QUEUE, "pause"): ActLink("Pause", "pause_queue"),
    (QUEUE, "resume"): ActLink("Resume", "pause_queue"),
    (WORKER, "drain"): ActLink("Drain", "drain_worker"),
    (WORKER, "resume"): ActLink("Resume", "drain_worker"),
}
"""By the kind of a thing and the verb."""


def act_link(user: User, kind: str, verb: str, name: str) -> str:
    """A link to doing this; empty for users who may not."""
    act = ACT_LINKS[kind, verb]
    if not user.has_perm(f"queuemgr.{act.permission}"):
        return ""
    return format_html(
        '<a class="sg-act" href="{}">{}<span class="sg-only-read"> {}</span>…</a>',
        address(f"queuemgr_{kind}_{verb}", name=name), act.label, name,
    )  # fmt: skip


def thing_link(user: User, thing: Thing, text: str) -> str:
    """A text, linked to the page of the thing, or of all such things, for users who may see it."""
    model = "execution" if thing.kind == FAILURES else thing.kind
    if not user.has_perm(f"queuemgr.view_{model}"):
        return link("", text)
    if thing.kind == FAILURES:
        return link(address("failures"), text)
    if thing.name:
        return link(address(f"queuemgr_{thing.kind}_named", name=thing.name), text)
    return link(address(f"queuemgr_{thing.kind}_changelist"), text)


WHAT_IF = "what-if"
"""The part of a limit's page that says what would become of its allowances with other amounts."""


def what_if_link(user: User, limit: str) -> str:
    """A link to asking it of this limit, or of its pattern; empty for users who may not edit limits."""
    if not user.has_perm("queuemgr.change_limit"):
        return ""
    return format_html(
        '<a class="sg-act" href="{}#{}">What if<span class="sg-only-read"> {} allowed more</span>?</a>',
        address("queuemgr_limit_named", name=limit), WHAT_IF, limit,
    )  # fmt: skip
