"""What must hold of allowances after every move: kept beside the rows, by what steps reported and how they
ended, and judged plainly, apart from the product's own clocks and sums."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db.models import Sum

from queuemgr.base.allowance import Allowance, parse_allowances
from queuemgr.base.meters import amounts_of, as_text, from_text
from queuemgr.lifecycle import leases
from queuemgr.models import AllowanceUsage, Attempt, Lease, Outcome
from queuemgr.scheduling.claims import names_of
from queuemgr.scheduling.decision_input import rule_for
from queuemgr.scheduling.limit_rules import read_rules

BROKEN_OFF = (Outcome.INTERRUPTED, Outcome.LOST, Outcome.SNOOZED)


@dataclass
class Held:
    """A lease as it was seen last."""

    limits: tuple[str, ...]
    cost: int
    uses: str
    spent_uses: str
    leased_at: datetime
    started_at: datetime | None


@dataclass
class AllowanceBooks:
    """`expected`: what must have been charged by limit, day and allowance. `rolling`: the allowances judged,
    with the leases there were before they were stated."""

    held: dict[UUID, Held] = field(default_factory=dict)
    counted: set[UUID] = field(default_factory=set)
    expected: Counter[tuple[str, str]] = field(default_factory=Counter)
    rolling: dict[tuple[str, str], tuple[Allowance, set[UUID]]] = field(default_factory=dict)
    reported: dict[UUID, str] = field(default_factory=dict)
    before: set[UUID] = field(default_factory=set)

    def spend(self, lease: UUID, tokens: int, usd: int) -> None:
        """A step reports what it has used so far: less or more than was reserved, or nothing at all."""
        text = as_text({"tokens": tokens, "usd": usd})
        if leases.record_usage(lease, text):
            self.reported[lease] = text

    def edited(self, name: str, text: str) -> None:
        """Before an edit states these allowances of a limit."""
        known = {*Lease.objects.values_list("pk", flat=True), *self.counted}
        self.rolling = {key: judged for key, judged in self.rolling.items() if key[0] != name}
        for allowance in parse_allowances(text):
            if allowance.rolling:
                self.rolling[name, allowance.name] = allowance, known

    def clock_set_back(self, known: set[UUID]) -> None:
        """What began until then is not counted with what begins at times that come again."""
        self.rolling = {key: (allowance, known) for key, (allowance, _) in self.rolling.items()}

    def check(self, now: datetime) -> None:
        self._charged_once(now)
        self._calendar_ones_hold(now)
        for (name, _), (allowance, not_counted) in self.rolling.items():
            self._rolling_one_holds(name, allowance, not_counted)

    def _charged_once(self, now: datetime) -> None:
        """Every lease that ended since is charged to the day and every allowance of every limit it passed."""
        rules = read_rules(now)
        for attempt in Attempt.objects.exclude(lease_id__in=self.counted):
            self.counted.add(attempt.lease_id)
            self._ended_as_documented(attempt)
            used = amounts_of(attempt.cost, attempt.uses or "")
            for name in names_of(attempt.phase, attempt.limit_keys):
                stated = [each for each in rule_for(rules, name).allowances if not each.rolling]
                for meter, amount in used.items():
                    for kind in {f"{meter}/day", *(each.name for each in stated if each.meter == meter)}:
                        self.expected[name, kind] += amount
        rows = AllowanceUsage.objects.order_by().values_list("limit", "allowance").annotate(Sum("spent"))
        assert {(name, kind): spent for name, kind, spent in rows} == dict(self.expected)

    def _ended_as_documented(self, attempt: Attempt) -> None:
        reported = self.reported.get(attempt.lease_id, "")
        held = self.held.get(attempt.lease_id)
        if attempt.outcome in BROKEN_OFF:
            assert (attempt.uses or "") == reported, f"{attempt} was broken off"
        elif held and attempt.outcome != Outcome.CANCELLED:
            expected = as_text({**from_text(held.uses), **from_text(reported)})
            assert (attempt.uses or "") == expected, f"{attempt} reserved {held.uses!r}"

    def _calendar_ones_hold(self, now: datetime) -> None:
        """Where something started since, what is reserved and spent is no more than is allowed."""
        rules = read_rules(now)
        spent = {
            (usage.limit, usage.allowance, usage.starts_at): usage.spent
            for usage in AllowanceUsage.objects.all()
        }
        total: Counter[tuple[str, str]] = Counter()
        started: set[tuple[str, str]] = set()
        current: dict[tuple[str, str], tuple[Allowance, datetime]] = {}
        for lease in Lease.objects.all():
            names = tuple(names_of(lease.phase, lease.limit_keys))
            self.held[lease.pk] = Held(
                names, lease.cost, lease.uses, lease.spent_uses, lease.leased_at, lease.started_at
            )
            estimated, used = amounts_of(lease.cost, lease.uses), from_text(lease.spent_uses)
            for name in names:
                rule = rule_for(rules, name)
                for allowance in rule.allowances:
                    starts_at = allowance.period_at(now, rule.budget_zone).starts
                    if allowance.rolling or lease.leased_at < starts_at:
                        continue
                    key, need = (name, allowance.name), estimated.get(allowance.meter, 0)
                    current[key] = allowance, starts_at
                    total[key] += max(need, used.get(allowance.meter, 0))
                    if need and lease.pk not in self.before:
                        started.add(key)
        for key in started:
            allowance, starts_at = current[key]
            in_all = total[key] + spent.get((*key, starts_at), 0)
            assert in_all <= allowance.amount, f"{key}: {in_all} of {allowance}"
        self.before = set(Lease.objects.values_list("pk", flat=True))

    def _rolling_one_holds(self, name: str, allowance: Allowance, not_counted: set[UUID]) -> None:
        """What work that began in any span of time used, as far as it was reserved, is at most the burst and
        what refills in that time."""
        begun = [
            (lease.started_at, amounts_of(lease.cost, lease.uses).get(allowance.meter, 0))
            for lease in Lease.objects.started()
            if lease.pk not in not_counted and name in names_of(lease.phase, lease.limit_keys)
        ]
        for attempt in Attempt.objects.exclude(lease_id__in=not_counted):
            held = self.held.get(attempt.lease_id)
            if held and name in held.limits:
                estimated = amounts_of(held.cost, held.uses).get(allowance.meter, 0)
                used = amounts_of(attempt.cost, attempt.uses or "").get(allowance.meter, 0)
                begun.append((attempt.started_at, min(estimated, used)))
        level, last = float(allowance.burst), None
        for at, amount in sorted((at, amount) for at, amount in begun if at and amount):
            refilled = (at - last).total_seconds() / allowance.interval if last else 0.0
            level, last = min(allowance.burst, level + refilled) - amount, at
            assert level > -0.01 * allowance.amount, f"{name}: {allowance} was exceeded by {-level:g}"
