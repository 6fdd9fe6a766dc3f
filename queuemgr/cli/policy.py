from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from queuemgr.base.errors import BadInput
from queuemgr.base.safe_text import as_json
from queuemgr.cli.arguments import add_reason
from queuemgr.cli.output import by_command, show, table
from queuemgr.flows import retry_policy
from queuemgr.flows.flow import all_error_kinds, all_phases
from queuemgr.flows.retry_policy import Policy
from queuemgr.models import RetryPolicy
from queuemgr.operations import controls
from queuemgr.scheduling import retry_policies
from queuemgr.scheduling.limit_input import parse_policy_field, validate

NAME = "policy"
HELP = "show the retry policy of an error kind, with the range of each wait; or change it"
EXAMPLES = """
  queue policy network
  queue policy network --phase {phase} --max-attempts 8 --base 30 --reason "slow to recover"
  queue policy timeout --json
"""

FIELDS = {
    "max_attempts": "maximum number of attempts, with the first",
    "base": "seconds before the second attempt; doubles each time",
    "ceiling": "maximum wait before jitter, in seconds",
    "jitter": "maximum random seconds added to each wait",
}


def add_arguments(parser: Any) -> None:
    parser.add_argument("kind", help="an error kind: network, timeout, rate_limited, …")
    parser.add_argument("--phase", default="", help="only in this phase (default: every phase)")
    for name, about in FIELDS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", metavar="VALUE", help=about)
    add_reason(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object, stable names")


def run(options: dict[str, Any], out: Any) -> int:
    kind, phase = options["kind"], options["phase"]
    _check(kind, phase)
    given = {name: options[name] for name in FIELDS if options[name] is not None}
    if given:
        values = {name: parse_policy_field(kind, name, text) for name, text in given.items()}
        _validate(kind, phase, values)
        controls.edit_policy(kind, phase, by_command(options["reason"]), **values)
    _show(kind, phase, retry_policies.policy_for(kind, phase), options["json"], out)
    return 0


def _check(kind: str, phase: str) -> None:
    kinds = dict.fromkeys([*all_error_kinds(), *RetryPolicy.objects.values_list("kind", flat=True)])
    if kind not in kinds:
        raise BadInput(f"no error kind is called {kind!r}; there are: {', '.join(kinds)}")
    if phase and phase not in all_phases():
        raise BadInput(f"no phase is called {phase!r}; there are: {', '.join(all_phases())}")


def _validate(kind: str, phase: str, values: dict[str, Any]) -> None:
    policy = RetryPolicy.objects.filter(kind=kind, phase=phase).first()
    policy = policy or retry_policies.new_row(kind, phase)
    for name, value in values.items():
        setattr(policy, name, value)
    validate(policy)


def _show(kind: str, phase: str, policy: Policy, json: bool, out: Any) -> None:
    waits = list(_waits(policy))
    if json:
        out.write(as_json({"kind": kind, "phase": phase or None, **asdict(policy), "waits": waits}))
        return
    where = f" in {phase}" if phase else ""
    meaning = f": {policy.meaning}" if policy.meaning else ""
    out.write(f"{kind}{where}{meaning}")
    out.write(f"at most {policy.max_attempts} attempts" if waits else "never retried")
    rows = ([w["before_attempt"], f"{w['shortest']:g} s", f"{w['longest']:g} s"] for w in waits)
    if waits:
        show(out, table("", ["before attempt", "shortest wait", "longest wait"], rows))


def _waits(policy: Policy) -> Iterator[dict[str, float]]:
    """The wait before each retry, in seconds; a Retry-After replaces the shortest wait."""
    for attempt in range(1, policy.max_attempts):
        shortest = retry_policy.backoff(policy, attempt)
        yield {
            "before_attempt": attempt + 1, "shortest": shortest, "longest": shortest + policy.jitter,
        }  # fmt: skip
