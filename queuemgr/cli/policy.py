from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from queuemgr.base.errors import BadInput
from queuemgr.base.safe_text import as_json
from queuemgr.cli.output import by_command, show, table
from queuemgr.flows import retry_policy
from queuemgr.flows.flow import all_phases
from queuemgr.flows.retry_policy import Policy
from queuemgr.models import RetryPolicy
from queuemgr.operations import controls
from queuemgr.scheduling import retry_policies
from queuemgr.scheduling.limit_input import parse_policy_field, validate

NAME = "policy"
HELP = "how one kind of error is tried again: the shortest and longest of each wait; or set figures"
EXAMPLES = """
  queue policy network
  queue policy network --phase expensive --max-attempts 8 --base 30 --reason "slow to recover"
  queue policy timeout --json
"""

UNITS = {
    "max_attempts": "tries in all, the first included",
    "base": "seconds before the second try; doubles",
    "ceiling": "longest wait, seconds",
    "jitter": "seconds added at random, at most",
}


def add_arguments(parser: Any) -> None:
    parser.add_argument("kind", help="a kind of error: network, timeout, rate_limited, …")
    parser.add_argument("--phase", default="", help="only in this phase (default every phase)")
    for figure, unit in UNITS.items():
        parser.add_argument(f"--{figure.replace('_', '-')}", metavar="VALUE", help=unit)
    parser.add_argument("--reason", default="", help="why, for the record")
    parser.add_argument("--json", action="store_true", help="one JSON object, stable names")


def run(options: dict[str, Any], out: Any) -> int:
    kind, phase = options["kind"], options["phase"]
    _check(kind, phase)
    given = {figure: options[figure] for figure in UNITS if options[figure] is not None}
    if given:
        figures = {name: parse_policy_field(kind, name, text) for name, text in given.items()}
        _check_makes_sense(kind, phase, figures)
        controls.edit_policy(kind, phase, by_command(options["reason"]), **figures)
    _show(kind, phase, retry_policies.policy_for(kind, phase), options["json"], out)
    return 0


def _check(kind: str, phase: str) -> None:
    kinds = dict.fromkeys(
        [*retry_policy.POLICIES, *RetryPolicy.objects.values_list("kind", flat=True)]
    )
    if kind not in kinds:
        raise BadInput(f"no kind of error is called {kind!r}; there are: {', '.join(kinds)}")
    if phase and phase not in all_phases():
        raise BadInput(f"no phase is called {phase!r}; there are: {', '.join(all_phases())}")


def _check_makes_sense(kind: str, phase: str, figures: dict[str, Any]) -> None:
    policy = RetryPolicy.objects.filter(kind=kind, phase=phase).first()
    policy = policy or retry_policies.new_row(kind, phase)
    for figure, value in figures.items():
        setattr(policy, figure, value)
    validate(policy)


def _show(kind: str, phase: str, policy: Policy, json: bool, out: Any) -> None:
    waits = list(_waits(policy))
    if json:
        facts = {"kind": kind, "phase": phase or None, **asdict(policy)}
        out.write(as_json({**facts, "waits": waits}))
        return
    where = f" in {phase}" if phase else ""
    meaning = f": {policy.meaning}" if policy.meaning else ""
    out.write(f"{kind}{where}{meaning}")
    out.write(f"tried {policy.max_attempts} times in all" if waits else "never tried again")
    rows = ([w["before_try"], f"{w['shortest']:g} s", f"{w['longest']:g} s"] for w in waits)
    if waits:
        show(out, table("", ["before try", "shortest wait", "longest wait"], rows))


def _waits(policy: Policy) -> Iterator[dict[str, float]]:
    """The wait before each further try, in seconds; a Retry-After takes the place of the shortest."""
    for attempt in range(1, policy.max_attempts):
        shortest = retry_policy.backoff(policy, attempt)
        yield {
            "before_try": attempt + 1, "shortest": shortest, "longest": shortest + policy.jitter,
        }  # fmt: skip
