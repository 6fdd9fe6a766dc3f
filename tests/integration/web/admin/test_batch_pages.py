"""The admin's pages of batches: what they show, who may do what there, and at what cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client
from django.urls import reverse

from queuemgr.flows.call import Call
from queuemgr.flows.flow import NewExecution
from queuemgr.flows.outcomes import Failed
from queuemgr.models import AuditEntry, Batch, Execution
from queuemgr.operations import batches
from queuemgr.operations.controls import Actor
from tests.integration.web.admin.admin_pages import page, text_of

pytestmark = pytest.mark.django_db(transaction=True)

ANN = Actor("ann", "test", "because")
HOSTILE = "<script>alert(1)</script>"
MAY_SEE = ("view_batch", "view_execution")


@pytest.fixture(autouse=True)
def _nothing_is_sent(sent: list[Any]) -> None:
    pass


def made(name: str, *keys: str, **rules: Any) -> Batch:
    batch = batches.open_batch(name, "probe", ANN, **rules)
    batches.add(batch, map(NewExecution, keys))
    return batch


def test_a_batch_shows_how_far_it_is_and_its_first_failures_as_text(
    staff: Callable[..., Client], played: Any
) -> None:
    worker = played(slots=1)
    batch = made(HOSTILE, HOSTILE + "1", "b", window=1)
    [grant] = worker.begin_all()
    worker.end(grant, Failed("not_found", HOSTILE + "2"))
    shown = text_of(staff(*MAY_SEE).get(page("batch", batch.pk, view="change")))
    assert "1 of 2 ended" in shown
    assert "window 1; open." in shown
    assert f"?batch={quote(batch.name, safe='')}&amp;state=failed" in shown
    assert "not_found" in shown
    assert HOSTILE not in shown and "&lt;script&gt;alert(1)&lt;/script&gt;2" in shown
    assert "Cancel the batch" not in shown


def test_the_list_of_batches_costs_as_many_statements_for_many_as_for_one(
    staff: Callable[..., Client], django_assert_max_num_queries: Any
) -> None:
    client = staff("view_batch")
    counts = []
    for many in (1, 12):
        for n in range(many):
            made(f"{many}-{n}", f"{many}-{n}-a", f"{many}-{n}-b")
        with django_assert_max_num_queries(30) as counted:
            assert "0 of 2" in text_of(client.get(page("batch")))
        counts.append(len(counted.captured_queries))
    assert counts[0] == counts[1]


def test_cancelling_and_closing_take_a_post_the_permission_and_keep_the_reason(
    staff: Callable[..., Client],
) -> None:
    client, batch = staff(*MAY_SEE, "change_batch"), made("b", "a", "c")
    close, cancel = (reverse(f"admin:batch_{verb}", args=[batch.pk]) for verb in ("close", "cancel"))
    assert client.get(cancel).status_code == 405
    assert "Closed: nothing more" in text_of(client.post(close, {"reason": "all in"}, follow=True))
    text = text_of(client.post(cancel, {"reason": "wrong list"}, follow=True))
    assert "Cancelled: 2 unfinished executions." in text
    assert "cancelled: by sam: wrong list" in text
    assert "Cancel the batch" not in text
    recorded = AuditEntry.objects.exclude(action="open batch").order_by("pk")
    assert list(recorded.values_list("action", "actor", "source", "reason")) == [
        ("close batch", "sam", "admin", "all in"), ("cancel batch", "sam", "admin", "wrong list"),
    ]  # fmt: skip


def test_who_may_only_look_cancels_nothing(staff: Callable[..., Client]) -> None:
    client, batch = staff(*MAY_SEE), made("b", "a")
    for verb in ("close", "cancel"):
        address = reverse(f"admin:batch_{verb}", args=[batch.pk])
        assert client.post(address, {"reason": "x"}).status_code == 403
    batch.refresh_from_db()
    assert batch.closed_at is None


def test_batches_can_be_found_by_name_and_by_state(staff: Callable[..., Client]) -> None:
    client = staff(*MAY_SEE)
    made("nightly"), batches.cancel(made("weekly"), ANN)
    assert "weekly" not in text_of(client.get(page("batch"), {"q": "night"}))
    shown = text_of(client.get(page("batch"), {"is": "cancelled"}))
    assert "weekly" in shown and "nightly" not in shown


def test_a_batch_shows_what_it_calls_and_the_batches_around_and_in_it(
    staff: Callable[..., Client], played: Any
) -> None:
    worker = played(slots=1)
    calls = {"on_complete": Call("probe", key=HOSTILE), "on_failure": Call("probe", key="bad")}
    outer = made("outer", "a", callbacks=calls)
    inner = made("inner", parent=outer)
    for batch in (inner, outer):
        batches.close(batch, ANN)
    [grant] = worker.begin_all()
    worker.end(grant)
    client = staff(*MAY_SEE)
    shown = text_of(client.get(page("batch", outer.pk, view="change")))
    called = Execution.objects.get(key=HOSTILE)
    assert f'<a href="{page("execution", called.pk, view="change")}">probe/&lt;script&gt;' in shown
    assert "on_failure: probe/bad has not fired" in shown
    assert f'<a href="{page("batch", inner.pk, view="change")}">inner</a>' in shown
    assert "completed." in shown
    around = f'In batch <a href="{page("batch", outer.pk, view="change")}">outer</a>'
    assert around in text_of(client.get(page("batch", inner.pk, view="change")))
