"""An upgrade keeps what was used of rates, also for work that is on its way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection

from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import AllowanceClock, Lease, Limit
from queuemgr.scheduling.decision_input import debits_of
from queuemgr.scheduling.limit_rules import rules_of
from tests.migration_steps import StepLoader

pytestmark = pytest.mark.django_db(transaction=True)
migration = import_module("queuemgr.migrations.0039_rates_as_clocks")


@pytest.fixture
def before() -> Iterator[Any]:
    """The models before the upgrade, with the column of the clocks."""
    apps = StepLoader(connection).project_state([("queuemgr", "0038_pace_of_clocks")]).apps
    state = apps.get_model("queuemgr", "LimitState")
    column = state._meta.get_field("rate_clock")
    with connection.schema_editor() as editor:
        editor.add_field(state, column)
    yield apps
    with connection.schema_editor() as editor:
        editor.remove_field(state, column)


@pytest.mark.usefixtures("rows_of_limits")
def test_an_upgrade_keeps_the_clocks_of_rates_and_a_way_back(before: Any, probes: Any, played: Any) -> None:
    played(slots=1)
    Limit.objects.filter(name="host:*").update(rate="1/3s")
    Limit.objects.create(name="host:own", rate="2/s burst 5")
    probes(1, limit_key="host:a")
    new = json.loads(Lease.objects.get().rate_debits)
    assert new.keys() == debits_of(rules_of(["host:a"], database_now()), ["host:a"], {}).keys()
    Lease.objects.update(rate_debits=json.dumps({"host:a": 3.0, "host:a tokens/minute": 2.0}))
    states = before.get_model("queuemgr", "LimitState").objects
    for name, clock in (("host:a", 7.0), ("host:own", 8.0), ("gone", 9.0), ("idle", 0.0)):
        states.create(name=name, rate_clock=clock)
    migration.move_clocks(before, SimpleNamespace(connection=connection))
    found = {row.name: (row.clock, row.pace) for row in AllowanceClock.objects.all()}
    assert found == {"host:a starts": (7, 3), "host:own starts": (8, 0.5), "gone starts": (9, 0)}
    assert json.loads(Lease.objects.get().rate_debits).keys() == {*new, "host:a tokens/minute"}
    states.update(rate_clock=0)
    migration.move_back(before, SimpleNamespace(connection=connection))
    assert dict(states.exclude(rate_clock=0).values_list("name", "rate_clock")) == {
        "host:a": 7, "host:own": 8, "gone": 9,
    }  # fmt: skip
    assert not AllowanceClock.objects.exists()
    assert json.loads(Lease.objects.get().rate_debits).keys() == {"host:a", "host:a tokens/minute"}
