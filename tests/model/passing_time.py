"""Time that passes at once: every time stored in a row is set back, so that now is later.

The clocks of the machine and of the database stay what they are; nothing is patched.
"""

from __future__ import annotations

from datetime import timedelta

from django.apps import apps
from django.db import models, transaction
from django.db.models import F

from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import (
    AllowanceClock,
    AllowanceSettlement,
    AllowanceUsage,
    AuditEntry,
    MinuteStats,
    Worker,
)

DAY = timedelta(days=1)


@transaction.atomic
def let_pass(seconds: float) -> None:
    """Make all that happened and all that is planned lie so many seconds earlier; workers live on,
    and what is only ever written once (changes, whole minutes) stays as it was."""
    step = timedelta(seconds=seconds)
    for model in {*apps.get_app_config("queuemgr").get_models()} - {AuditEntry, MinuteStats, AllowanceUsage}:
        moments = [f.name for f in model._meta.concrete_fields if _is_moment(f)]
        if moments:
            model._default_manager.update(**{name: F(name) - step for name in moments})
    AllowanceClock.objects.update(clock=F("clock") - seconds)
    AllowanceSettlement.objects.update(at=F("at") - seconds)
    Worker.objects.update(seen_at=database_now())


def next_day() -> None:
    """Let a whole day pass: what was spent today was spent yesterday."""
    let_pass(DAY.total_seconds())
    for of_a_period in AllowanceUsage.objects.filter(allowance__contains="/day").order_by("starts_at"):
        of_a_period.starts_at -= DAY
        of_a_period.save()


def _is_moment(field: models.Field[object, object]) -> bool:
    return isinstance(field, models.DateTimeField)
