"""An upgrade keeps what was spent of daily budgets, and who may see it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.db import connection

from queuemgr.models import AllowanceUsage, Limit
from tests.migration_steps import StepLoader

pytestmark = pytest.mark.django_db(transaction=True)
DAY = date(2026, 11, 28)
migration = import_module("queuemgr.migrations.0036_budgets_as_allowances")


@pytest.fixture
def before() -> Iterator[Any]:
    """The models before the upgrade, with the table of daily usage."""
    loader = StepLoader(connection)
    apps = loader.project_state([("queuemgr", "0035_note_of_limits"), *loader.graph.leaf_nodes("auth")]).apps
    old = apps.get_model("queuemgr", "DailyUsage")
    with connection.schema_editor() as editor:
        editor.create_model(old)
    yield apps
    with connection.schema_editor() as editor:
        editor.delete_model(old)


def test_an_upgrade_keeps_what_was_spent_of_budgets_on_the_days_of_their_zones(
    before: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    Limit.objects.create(name="tenant:*", budget_zone="Europe/Berlin")
    Limit.objects.create(name="tenant:a", budget_zone="Asia/Tokyo")
    stated = AllowanceUsage.objects.create(
        limit="both", allowance="requests/day", starts_at=datetime(2026, 11, 28, tzinfo=UTC), spent=3
    )
    old = before.get_model("queuemgr", "DailyUsage").objects
    for name, spent in (("fleet", 7), ("tenant:a", 8), ("tenant:b", 9), ("both", 5)):
        old.create(day=DAY, limit=name, spent=spent)
    old.create(day=date(2026, 11, 27), limit="fleet", spent=6)
    monkeypatch.setattr(migration, "ROWS", 2)
    migration.move_usage(before, SimpleNamespace(connection=connection))
    rows = AllowanceUsage.objects.filter(allowance="requests/day")
    found = {(row.limit, f"{row.starts_at:%d %H}"): row.spent for row in rows}
    assert found == {
        ("fleet", "28 00"): 7, ("fleet", "27 00"): 6, ("tenant:a", "27 15"): 8, ("tenant:b", "27 23"): 9,
        ("both", "28 00"): 5,
    }  # fmt: skip
    stated.refresh_from_db()
    assert stated.spent == 5, "both counted the same requests"


def test_whoever_may_see_daily_usage_may_see_usage_after_an_upgrade(before: Any) -> None:
    kind, _ = ContentType.objects.get_or_create(app_label="queuemgr", model="dailyusage")
    old = Permission.objects.create(content_type=kind, codename="view_dailyusage", name="x")
    group, user = Group.objects.create(name="watchers"), User.objects.create(username="sam")
    group.permissions.add(old)
    user.user_permissions.add(old)
    migration.move_permissions(before, SimpleNamespace(connection=connection))
    names = ["view_allowanceusage"]
    assert list(group.permissions.values_list("codename", flat=True)) == names
    assert list(user.user_permissions.values_list("codename", flat=True)) == names
    assert not Permission.objects.filter(codename="view_dailyusage").exists()
