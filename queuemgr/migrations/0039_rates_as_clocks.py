"""The clock of a rate is one of an allowance: the clocks move, with what their seconds are of, and what leases
that have not begun are to take of them."""

import json
from contextlib import suppress

from django.db import migrations, models

from queuemgr.base.errors import BadInput
from queuemgr.base.rate import parse_rate

ENDING = " starts"


def interval_of(limit, rates):
    """Of its own row, else of the longest pattern; 0 where there is no rate that can be read."""
    patterns = [name for name in rates if name.endswith("*") and limit.startswith(name[:-1])]
    row = limit if limit in rates else max(patterns, key=len, default="")
    with suppress(BadInput):
        if rate := parse_rate(rates.get(row, "")):
            return rate.interval
    return 0.0


def move_clocks(apps, schema_editor):
    database = schema_editor.connection.alias
    rates = dict(apps.get_model("queuemgr", "Limit").objects.using(database).values_list("name", "rate"))
    clocks = apps.get_model("queuemgr", "AllowanceClock").objects.using(database)
    states = apps.get_model("queuemgr", "LimitState").objects.using(database).filter(rate_clock__gt=0)
    moved = (
        clocks.model(name=name + ENDING, clock=clock, pace=interval_of(name, rates))
        for name, clock in states.values_list("name", "rate_clock").iterator()
    )
    clocks.bulk_create(moved, batch_size=500)
    rename_debits(apps, database, lambda clock: clock if " " in clock else clock + ENDING)


def move_back(apps, schema_editor):
    database = schema_editor.connection.alias
    clocks = apps.get_model("queuemgr", "AllowanceClock").objects.using(database).filter(name__endswith=ENDING)
    states = apps.get_model("queuemgr", "LimitState").objects.using(database)
    for name, clock in clocks.values_list("name", "clock"):
        states.update_or_create(name=name.removesuffix(ENDING), defaults={"rate_clock": clock})
    clocks.delete()
    rename_debits(apps, database, lambda clock: clock.removesuffix(ENDING))


def rename_debits(apps, database, renamed):
    leases = apps.get_model("queuemgr", "Lease").objects.using(database)
    for lease in leases.filter(started_at=None).exclude(rate_debits="").only("pk", "rate_debits"):
        taken = {renamed(clock): each for clock, each in json.loads(lease.rate_debits).items()}
        leases.filter(pk=lease.pk).update(rate_debits=json.dumps(taken))


class Migration(migrations.Migration):
    dependencies = [("queuemgr", "0038_pace_of_clocks")]

    operations = [
        migrations.RunPython(move_clocks, move_back),
        migrations.RemoveField("limitstate", "rate_clock"),
    ]
