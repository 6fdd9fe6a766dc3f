"""What people set: queues, limits, retry policies; and the state and usage of a limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Self

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q

from queuemgr.base.allowance import LONGEST_ENTRY, MOST_OF_A_LIMIT
from queuemgr.base.budget_day import zone
from queuemgr.base.column_sizes import LONGEST_ACTOR, MAX_LIMIT_KEY
from queuemgr.base.errors import BadInput
from queuemgr.base.limit_shorthand import SaidTwice, said_twice
from queuemgr.base.rate import parse_rate
from queuemgr.base.time_text import moment_text
from queuemgr.flows.payload_validation import check_text
from queuemgr.flows.retry_policy import MAX_DELAY
from queuemgr.models.allowances_field import AllowancesField
from queuemgr.models.enums import Priority
from queuemgr.models.settable import settable, settable_fields
from queuemgr.models.stated import Stated
from queuemgr.models.whole_numbers import WholeNumber


class PausableQuerySet(models.QuerySet[Any]):
    def paused(self, now: datetime) -> Self:
        still = Q(paused_until__isnull=True) | Q(paused_until__gt=now)
        return self.filter(still, paused_at__isnull=False)


class Pausable(models.Model):
    """Fields of what can be paused: by whom, since when, why, and until when."""

    paused_at = models.DateTimeField(null=True, blank=True, editable=False)
    paused_by = models.CharField(max_length=LONGEST_ACTOR, blank=True, editable=False)
    pause_reason = models.CharField(max_length=200, blank=True)
    paused_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True

    def is_paused(self, now: datetime) -> bool:
        return self.paused_at is not None and (self.paused_until is None or self.paused_until > now)

    def pause_sentence(self) -> str:
        return pause_sentence(self.paused_by, self.pause_reason, self.paused_until)


def pause_sentence(by: str, reason: str, until: datetime | None) -> str:
    """`paused by NAME: REASON, until TIME`; reason and time only if there are any."""
    why = f": {reason}" if reason else ""
    end = f", until {moment_text(until)}" if until else ""
    return f"paused by {by or 'someone'}{why}{end}"


NO_ROOM = "reserved_high must be smaller than max_running."


class Queue(Pausable, Stated):
    """A Celery queue: the steps of one phase at one priority."""

    name = models.CharField(max_length=64, unique=True)
    phase = models.CharField(max_length=32)
    priority = models.SmallIntegerField(choices=Priority)
    max_pending = WholeNumber(
        default=0, help_text="Most executions that may wait here; more are refused. 0: no cap."
    )
    max_pending_from_settings = WholeNumber(default=0, editable=False)

    objects = PausableQuerySet.as_manager()

    class Meta:
        ordering = ("phase", "priority")
        permissions = (("pause_queue", "Can pause and resume queues"),)

    def __str__(self) -> str:
        return self.name

    @property
    def from_settings(self) -> dict[str, Any]:
        """As the field of limits: the values that settings gave it."""
        return {"max_pending": self.max_pending_from_settings}

    @from_settings.setter
    def from_settings(self, values: dict[str, Any]) -> None:
        self.max_pending_from_settings = values["max_pending"]


AT_ONCE, OVER_TIME, REQUESTS_A_DAY = "At once", "Over time", "Requests a day"
TENANTS_AND_FAILING, ABOUT_IT = "Tenants and failing services", "About it"


def _percent(meaning: str) -> models.PositiveSmallIntegerField[Any, Any]:
    return models.PositiveSmallIntegerField(default=0, validators=[MaxValueValidator(100)], help_text=meaning)


READ: Mapping[str, Callable[[str], object]] = {"rate": parse_rate, "zone": zone}
"""Reads a text, by what it is; raises `BadInput`."""


class Limit(Pausable, Stated):
    """The settings of a limit, which people edit; what workers observe about it is in `LimitState`.

    Names: `fleet`, `phase:print`, a key such as `host:api.example.org:443` or `tenant:acme`, a resource such
    as `cpu`, or a pattern such as `host:*`, whose values apply to each matching key without its own row.
    """

    name = models.CharField(max_length=255, unique=True)
    max_running = settable(
        WholeNumber(default=0, help_text="Total weight that may run at once under this limit; 0: no cap."),
        unit="weight", group=AT_ONCE, is_listed=True,
    )  # fmt: skip
    reserved_high = settable(
        WholeNumber(default=0, help_text="Part of max_running that only high-priority work may use."),
        unit="weight", group=AT_ONCE, is_listed=True,
    )  # fmt: skip
    rate = settable(
        models.CharField(
            max_length=64,
            blank=True,
            help_text="Rate of starts, as 1/3s, 50/s burst 100 or 10000/h; empty: none.",
        ),
        unit="rate", group=OVER_TIME, is_listed=True,
    )  # fmt: skip
    daily_budget = settable(
        WholeNumber(null=True, blank=True, help_text="Most requests per day; empty: no budget."),
        unit="requests", group=REQUESTS_A_DAY, is_listed=True,
    )  # fmt: skip
    budget_zone = settable(
        models.CharField(
            max_length=64,
            blank=True,
            help_text="IANA time zone of the budget's day; empty: the SLUICE_BUDGET_ZONE setting.",
        ),
        unit="zone", group=REQUESTS_A_DAY,
    )  # fmt: skip
    reserved_for_high_percent = settable(
        _percent(
            "Last percent of the day's budget that only high-priority work may spend "
            "(none of a budget below 100)."
        ),
        unit="percent", group=REQUESTS_A_DAY,
    )  # fmt: skip
    blocked_for_low_percent = settable(
        _percent("Last percent of the day's budget that low-priority work may not spend."),
        unit="percent", group=REQUESTS_A_DAY,
    )  # fmt: skip
    allowances = settable(
        AllowancesField(
            blank=True,
            max_length=MOST_OF_A_LIMIT * (LONGEST_ENTRY + 2),
            default="",
            db_default="",
            help_text="How much of each meter may be used in a period, as 30,000 tokens/minute; 20 usd/day "
            "in Europe/Berlin.",
        ),
        unit="allowances", group=OVER_TIME, is_listed=True,
    )  # fmt: skip
    share = settable(
        WholeNumber(
            default=1,
            validators=[MinValueValidator(1)],
            help_text="Starts a tenant gets for each start of a tenant whose share is 1.",
        ),
        unit="starts", group=TENANTS_AND_FAILING,
    )  # fmt: skip
    breaker_after = settable(
        WholeNumber(
            default=10,
            help_text="Consecutive failures to reach the service that open the breaker; 0: never.",
        ),
        unit="failures", group=TENANTS_AND_FAILING,
    )  # fmt: skip
    note = settable(
        models.CharField(
            max_length=200,
            blank=True,
            default="",
            db_default="",
            help_text="Why it is what it is, for whoever edits it next, as the contract of May.",
        ),
        unit="text", group=ABOUT_IT, decides=False,
    )  # fmt: skip
    pause_only = models.BooleanField(
        default=False,
        db_default=False,
        editable=False,
        help_text="Whether it only holds a pause, and its values are those of its pattern.",
    )
    from_settings = models.JSONField(default=dict, editable=False)

    objects = PausableQuerySet.as_manager()

    class Meta:
        ordering = ("name",)
        permissions = (("pause_limit", "Can pause and resume limits and reset their breakers"),)
        constraints = (
            models.CheckConstraint(
                condition=Q(max_running=0) | Q(reserved_high__lt=F("max_running")) | Q(max_running=1),
                name="limit_reserve_leaves_room",
                violation_error_message=NO_ROOM,
            ),
            models.CheckConstraint(
                condition=Q(
                    reserved_for_high_percent__lte=100, blocked_for_low_percent__lte=100, share__gte=1
                ),
                name="limit_percents_and_share",
                violation_error_message="Percents must be 0 to 100, and the share at least 1.",
            ),
        )

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """Raise `ValidationError` for a text that no row can hold, and for a rate or a time zone that cannot
        be read."""
        problems = {}
        for field in LIMIT_FIELDS.values():
            try:
                if field.longest and (text := getattr(self, field.name)):
                    check_text(field.name, text, field.longest)
                    READ.get(field.unit, str)(text)
            except BadInput as error:
                problems[field.name] = str(error)
        if self.max_running and self.max_running > 1 and (self.reserved_high or 0) >= self.max_running:
            problems["reserved_high"] = NO_ROOM
        if problems:
            raise ValidationError(problems)

    def said_twice(self) -> SaidTwice | None:
        """What its allowances and its rate or daily budget both say."""
        return said_twice(self.allowances, self.rate, self.daily_budget)

    def validate_said_once(self) -> None:
        """For edits that state one of these: rows may have both of settings and of a person."""
        if twice := self.said_twice():
            raise ValidationError({"allowances": f"{twice}"})


LIMIT_FIELDS = settable_fields(Limit)
"""The fields of a limit that a person may set, by name."""

SHORT_OR_LONG = frozenset({"rate", "daily_budget", "allowances"})
"""Those that may say the same."""


class LimitState(models.Model):
    """Circuit breaker and virtual time of a limit: written by the fleet alone.

    Separate from `Limit`, because the keys of a pattern have no row of their own there, and because what
    the fleet writes many times a second must not conflict with what a person edits. Losing a row costs
    one request to the service.
    """

    name = models.CharField(max_length=255, unique=True)
    open_until = models.DateTimeField(null=True)
    open_reason = models.CharField(max_length=200, blank=True)
    half_open_starts = models.PositiveIntegerField(
        default=0, help_text="How many may run at once while half-open; 0: not half-open."
    )
    failures = models.PositiveIntegerField(default=0, help_text="Consecutive failures to reach the service.")
    virtual_time = models.FloatField(
        default=0, help_text="Virtual time of a tenant (start-time fair queueing)."
    )
    provider_left = models.TextField(
        default="", db_default="", help_text="What its provider says is left; see provider_left.py."
    )

    class Meta:
        db_table = "queuemgr_gate"

    def __str__(self) -> str:
        return self.name


class AllowanceUsage(models.Model):
    """What was spent of a meter under a limit in one period, charged when leases end: by day whatever the
    limit allows, and in the other periods of its calendar allowances.

    The period is the one in which the lease was granted; `allowance` is the name of its kind, as `usd/day`.
    """

    limit = models.CharField(max_length=MAX_LIMIT_KEY, db_column="limit_name")
    allowance = models.CharField(max_length=64)
    starts_at = models.DateTimeField()
    spent = models.BigIntegerField(default=0, help_text="In the smallest part of the meter.")

    class Meta:
        ordering = ("-starts_at", "limit", "allowance")
        verbose_name_plural = "usage of allowances"
        constraints = (
            models.UniqueConstraint(
                fields=("limit", "allowance", "starts_at"), name="one_usage_per_limit_and_period"
            ),
        )

    def __str__(self) -> str:
        return f"{self.limit} {self.allowance} from {self.starts_at:%Y-%m-%d %H:%M}: {self.spent}"


class AllowanceClock(models.Model):
    """The clock of a rolling allowance of a limit, as its rate: written by the fleet alone."""

    name = models.CharField(max_length=MAX_LIMIT_KEY + 65, unique=True)
    clock = models.FloatField(default=0, help_text="Unix seconds; see allowance.py.")
    bookings = models.BigIntegerField(default=0, db_default=0, help_text="The number of the latest booking.")
    dips = models.TextField(
        default="[]", db_default="[]", help_text="The lowest since each; see bucket_clock.py."
    )
    pace = models.FloatField(
        default=0, db_default=0, help_text="Seconds of the smallest part of its meter; 0: unknown."
    )

    def __str__(self) -> str:
        return self.name


class AllowanceSettlement(models.Model):
    """By how much the end of a lease sets the clock of a rolling allowance forward: what was used, less what
    was booked when it began (see bucket_clock.py). Taken by the next booking."""

    name = models.CharField(max_length=MAX_LIMIT_KEY + 65, db_index=True)
    seconds = models.FloatField()
    at = models.FloatField(default=0, db_default=0, help_text="When the lease ended.")
    number = models.BigIntegerField(default=0, db_default=0, help_text="The number of its booking.")
    pace = models.FloatField(
        default=0, db_default=0, help_text="Seconds of the smallest part of its meter; 0: unknown."
    )

    def __str__(self) -> str:
        return f"{self.name}: {self.seconds:+g} s"


class RetryPolicy(Stated):
    """How often and how fast an error kind is retried; a row for a phase overrides the one for all."""

    kind = models.CharField(max_length=32)
    phase = models.CharField(max_length=32, blank=True, help_text="Empty: every phase.")
    max_attempts = WholeNumber(help_text="Most attempts, including the first.")
    base = models.FloatField(
        default=0, help_text="Seconds before the second attempt; doubles for each one after."
    )
    ceiling = models.FloatField(default=0, help_text="Longest delay in seconds.")
    jitter = models.FloatField(default=0, help_text="Most seconds added at random.")
    meaning = models.CharField(max_length=200, blank=True)
    from_settings = models.JSONField(default=dict, editable=False)

    class Meta:
        ordering = ("kind", "phase")
        verbose_name_plural = "retry policies"
        constraints = (
            models.UniqueConstraint(fields=("kind", "phase"), name="one_policy_per_kind_and_phase"),
            models.CheckConstraint(
                condition=Q(max_attempts__gte=1, base__gte=0, ceiling__gte=F("base"), jitter__gte=0),
                name="policy_waits_make_sense",
                violation_error_message="max_attempts is at least 1, delays at least 0, "
                "the ceiling at least base.",
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} in {self.phase}" if self.phase else self.kind

    def clean(self) -> None:
        """Raise `ValidationError` for a delay that is no number or longer than a year."""
        waits = {name: getattr(self, name) for name in ("base", "ceiling", "jitter")}
        beyond = [name for name, w in waits.items() if w is not None and not w <= MAX_DELAY]
        if beyond:
            raise ValidationError(dict.fromkeys(beyond, f"At most {MAX_DELAY} s, a year."))
