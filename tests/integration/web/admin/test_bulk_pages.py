"""Bulk actions and failures in the admin: who may, what is shown, and that looking changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import NORMAL
from queuemgr.models import ActionState, AuditEntry, BulkAction, Execution, MinuteStats, State
from queuemgr.operations import bulk
from queuemgr.operations.bulk import BulkRequest, chunk
from queuemgr.reporting.failure_groups import groups, trends
from queuemgr.scheduling import limit_rows
from tests.integration.operations.bulk_fixtures import ANN, FAILED, carried_out, fail, some_failed, started
from tests.integration.web.admin.admin_pages import page, text_of

pytestmark = pytest.mark.django_db

HOSTILE = "<script>alert(1)</script>"
MAY = ("view_execution", "view_bulkaction", "add_bulkaction", "stop_bulkaction", "view_auditentry")


@pytest.fixture(autouse=True)
def _ready(sent: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queuemgr.lifecycle.publish.periodic_job", lambda task: None)
    limit_rows.sync()


@pytest.fixture
def retrier(staff: Callable[..., Client]) -> Client:
    """Someone who may start and stop bulk actions, and of what they do only retry."""
    return staff(*MAY, "retry_execution")


def new(**given: Any) -> str:
    return reverse("admin:bulk_new", query=given)


def post(client: Client, **given: Any) -> Any:
    return client.post(reverse("admin:bulk_new"), given, follow=True)


def test_a_preview_shows_count_and_sample_and_changes_nothing(retrier: Client) -> None:
    some_failed(3, message="refused by a.example")
    shown = text_of(retrier.get(new(state="failed", verb="retry")))
    assert "3 executions would change" in shown
    assert "refused by a.example" in shown
    assert "Retry 3 executions" in shown
    assert not BulkAction.objects.exists()
    assert Execution.objects.failed().count() == 3


def test_a_previewed_bulk_action_is_started_with_its_reason_and_shown(retrier: Client) -> None:
    """Also: work enqueued after the preview is not changed."""
    some_failed(3)
    seen = bulk.preview(BulkRequest("retry", FAILED))
    some_failed(1, prefix="late")
    answer = post(retrier, verb="retry", state="failed", up_to=seen.up_to, per_minute="0", reason="mended")
    shown = text_of(answer)
    assert "on 3 executions" in shown
    action = BulkAction.objects.get()
    assert (action.state, action.actor, action.reason) == (ActionState.RUNNING, "sam", "mended")
    assert answer.redirect_chain[-1][0] == page("bulkaction", action.pk, view="change")
    carried_out(action)
    shown = text_of(retrier.get(page("bulkaction", action.pk, view="change")))
    assert "100% of 3 executions" in shown


@pytest.mark.parametrize("action", ["cancel", "skip", "priority", "reschedule", "retry_from_start"])
def test_an_action_needs_its_own_permission_besides_that_of_bulk_actions(
    action: str, staff: Callable[..., Client]
) -> None:
    """Checked by the server, whatever the form offers."""
    some_failed(1)
    client = staff(*MAY, "retry_execution") if action != "retry_from_start" else staff(*MAY)
    answer = post(client, verb=action, to_priority="high", to_run_after="2031-01-01", reason="x")
    assert answer.status_code == 403
    assert not BulkAction.objects.exists()


@pytest.mark.parametrize("held", [("view_execution",), ("add_bulkaction",)])
def test_without_the_permission_there_is_no_page_and_no_action(
    held: tuple[str, ...], staff: Callable[..., Client]
) -> None:
    client = staff(*held, "retry_execution")
    assert client.get(new()).status_code == 403
    assert post(client, verb="retry", state="failed").status_code == 403


def test_only_who_may_stop_can_stop_and_never_by_a_link(
    retrier: Client, staff: Callable[..., Client]
) -> None:
    some_failed(4)
    action = started()
    chunk.change_next(action.pk, rows=1)
    stop = reverse("admin:bulk_stop", args=[action.pk])
    assert retrier.get(stop).status_code == 405
    assert "Stop now" in text_of(retrier.get(page("bulkaction", action.pk, view="change")))
    shown = text_of(retrier.post(stop, {"reason": "wrong ones"}, follow=True))
    assert "Stopped" in shown
    assert "by sam" in shown
    assert "Resume with the rest" in shown
    change = AuditEntry.objects.get(action="stop bulk action")
    assert (change.actor, change.reason, change.affected) == ("sam", "wrong ones", 1)
    text_of(retrier.post(reverse("admin:bulk_resume", args=[action.pk]), follow=True))
    assert carried_out(BulkAction.objects.latest("pk")).changed == 3


def test_a_viewer_sees_progress_and_no_button_and_cannot_act(staff: Callable[..., Client]) -> None:
    some_failed(2)
    action = started()
    viewer = staff("view_bulkaction", "view_execution")
    shown = text_of(viewer.get(page("bulkaction", action.pk, view="change")))
    assert "Stop now" not in shown
    assert "data-address" in shown
    assert "Refresh" in shown, "for a browser without JavaScript"
    for view in ("bulk_stop", "bulk_resume"):
        assert viewer.post(reverse(f"admin:{view}", args=[action.pk])).status_code == 403
    assert "New bulk action" not in text_of(viewer.get(page("bulkaction")))
    assert bulk.get_or_error(action.pk).state == ActionState.RUNNING


def test_the_progress_part_refreshes_until_the_action_has_ended(retrier: Client) -> None:
    some_failed(4)
    action = started()
    chunk.change_next(action.pk, rows=1)
    part = reverse("admin:bulk_progress", args=[action.pk])
    shown = text_of(retrier.get(part))
    assert "25% of 4 executions" in shown
    assert "data-address" in shown
    carried_out(action)
    assert "data-address" not in text_of(retrier.get(part))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"colour": "red"}, "no filter is called &#x27;colour&#x27;"),
        ({"state": "fialed"}, "state &#x27;fialed&#x27; is not one of"),
        ({"ids": "1,x"}, "are not comma-separated numbers"),
        ({"per_minute": "-1", "state": "failed"}, "is not a whole number"),
        ({HOSTILE: "x"}, "&lt;script&gt;alert(1)"),
        ({"key": HOSTILE}, "Nothing would change"),
    ],
)
def test_an_unknown_filter_is_refused_by_name_and_never_means_everything(
    given: dict[str, str], expected: str, retrier: Client
) -> None:
    some_failed(2)
    shown = text_of(retrier.get(new(verb="retry", **given)))
    assert expected in shown
    assert HOSTILE not in shown
    text_of(post(retrier, verb="retry", **given))
    assert not BulkAction.objects.exists()


def test_hostile_text_in_rows_and_reasons_is_shown_as_text(retrier: Client) -> None:
    some_failed(1, kind="<b>kind", message=HOSTILE, fingerprint="<i>")
    Execution.objects.update(key=HOSTILE)
    text_of(post(retrier, verb="retry", state="failed", reason=HOSTILE))
    action = BulkAction.objects.get()
    BulkAction.objects.update(problem=HOSTILE, filters={"key": HOSTILE})
    fail([Execution.objects.get().pk])
    for address in (
        page("bulkaction"), page("bulkaction", action.pk, view="change"), reverse("admin:failures"),
        new(verb="retry", state="failed"), reverse("admin:bulk_progress", args=[action.pk]),
    ):  # fmt: skip
        shown = text_of(retrier.get(address))
        assert "<script>alert" not in shown
        assert "<b>kind" not in shown


def test_failures_are_grouped_by_cause_largest_first_with_a_way_to_retry_just_these(retrier: Client) -> None:
    some_failed(2, "timeout", "no answer from b", "aaaa")
    some_failed(3, "network", "refused by a", "bbbb", prefix="g")
    some_failed(1, "network", "reset by c", "cccc", prefix="h")
    found = [(g.kind, g.fingerprint, g.count, g.sample_message) for g in groups()]
    assert found == [
        ("network", "bbbb", 3, "refused by a"), ("timeout", "aaaa", 2, "no answer from b"),
        ("network", "cccc", 1, "reset by c"),
    ]  # fmt: skip
    assert len(groups(limit=1)) == 1
    response = retrier.get(reverse("admin:failures"))
    assert "refused by a" in text_of(response)
    shown = text_of(retrier.get(response.context["rows"][0]["retry_url"]))
    assert "3 executions would change" in shown
    rows = retrier.get(response.context["rows"][0]["list_url"]).context["cl"].result_list
    assert {row.error_fingerprint for row in rows} == {"bbbb"}


def test_no_kind_hides_the_others_and_a_large_group_has_a_lower_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("queuemgr.reporting.failure_groups.PER_KIND", 3)
    monkeypatch.setattr("queuemgr.reporting.failure_groups.MAX_COUNTED", 8)
    for n in range(5):
        some_failed(1, "aaa", f"message {n}", f"f{n}", prefix=f"k{n}x")
    some_failed(4, "zzz", "the last kind", "f0", prefix="z")
    found = {(g.kind, g.fingerprint): (g.count, g.more) for g in groups()}
    assert found == {
        ("aaa", "f0"): (1, False), ("aaa", "f1"): (1, False), ("aaa", "f2"): (1, False),
        ("zzz", "f0"): (2, True),
    }  # fmt: skip


def test_a_group_says_when_its_last_execution_failed() -> None:
    some = some_failed(3, fingerprint="aaaa")
    last = database_now() - timedelta(minutes=5)
    Execution.objects.update(finished_at=last - timedelta(hours=1))
    Execution.objects.filter(pk=some[0].pk).update(finished_at=last)
    assert groups()[0].last_at == last


def test_the_trend_of_a_kind_is_shown_per_hour_from_the_rolled_up_minutes(retrier: Client) -> None:
    hour = database_now().replace(minute=0, second=0, microsecond=0)
    for ago, n in ((0, 2), (3, 5), (23, 1), (24, 9)):
        MinuteStats.objects.create(
            minute=hour - timedelta(hours=ago), phase="prep", priority=1, outcome="retried",
            error_kind="network", attempts=n,
        )  # fmt: skip
    (trend,) = trends()
    assert (trend.kind, trend.total, trend.hours[-1], trend.hours[-4], trend.hours[0]) == (
        "network", 8, 2, 5, 1,
    )  # fmt: skip
    assert "network" in text_of(retrier.get(reverse("admin:failures")))


@pytest.mark.parametrize("address", ["admin:failures", "admin:queuemgr_bulkaction_changelist"])
def test_pages_cost_the_same_queries_for_one_row_and_for_many(address: str, retrier: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            text_of(retrier.get(reverse(address)))
        return len(captured.captured_queries)

    some_failed(1, fingerprint="a")
    bulk.create(BulkRequest("retry", FAILED), ANN)
    few = queries()
    for n in range(8):
        some_failed(1, f"kind{n}", "x", f"b{n}", prefix=f"p{n}x")
        bulk.create(BulkRequest("retry", FAILED), ANN)
    assert queries() == few


def test_the_preview_of_a_filter_that_matches_everything_says_so(retrier: Client) -> None:
    some_failed(1)
    assert "this matches every execution" in text_of(retrier.get(new(verb="retry")))
    assert Execution.objects.get().state == State.FAILED


def test_a_bulk_change_of_priorities_is_undone_from_its_page_once(staff: Callable[..., Client]) -> None:
    some_failed(3)
    action = carried_out(started("priority", FAILED, arguments={"priority": "high"}))
    own = page("bulkaction", action.pk, view="change")
    may = ("view_bulkaction", "view_auditentry", "undo_auditentry", "prioritise_execution")
    client = staff(*may)
    assert ">undo it<" in text_of(client.get(own))
    start = AuditEntry.objects.get(action_id=action.pk, action="start bulk action")
    change = page("auditentry", start.pk, view="change")
    assert "Restores: priority #" in text_of(client.get(change))
    shown = text_of(client.post(reverse("admin:queuemgr_auditentry_undo", args=[start.pk]), follow=True))
    assert "Being undone in the background by restore #" in shown
    back = carried_out(BulkAction.objects.latest("pk"))
    assert (back.changed, set(Execution.objects.values_list("priority", flat=True))) == (3, {NORMAL})
    assert "undo what it did" not in text_of(client.get(own))
    shown = text_of(client.get(page("bulkaction", back.pk, view="change")))
    assert f"all that bulk action #{action.pk} changed" in shown


def test_who_may_not_undo_is_not_offered_it(staff: Callable[..., Client]) -> None:
    some_failed(1)
    action = carried_out(started("priority", FAILED, arguments={"priority": "high"}))
    viewer = staff("view_bulkaction", "undo_auditentry", "view_auditentry")
    shown = text_of(viewer.get(page("bulkaction", action.pk, view="change")))
    assert "undo what it did" not in shown


def test_how_long_failures_are_kept_is_shown_and_changed_by_those_who_may(superuser: Client) -> None:
    url = reverse("admin:keep_failures")
    for days, said in (
        ("30", "for 30 days"),
        ("0", "for ever"),
        ("x", "give a number of days"),
        ("", "as code"),
    ):
        page = text_of(superuser.post(url, {"flow": "probe", "days": days, "reason": "audit"}, follow=True))
        assert said in page
    changes = AuditEntry.objects.filter(action="keep failures").order_by("pk")
    assert [(change.target, change.reason) for change in changes] == [("probe", "audit")] * 3
    assert "no flow is called" in text_of(superuser.post(url, {"flow": "x", "days": "1"}, follow=True))


def test_a_viewer_sees_how_long_failures_are_kept_and_changes_nothing(staff: Callable[..., Client]) -> None:
    viewer = staff("view_execution")
    assert "How long failures are kept" in text_of(viewer.get(reverse("admin:failures")))
    assert viewer.post(reverse("admin:keep_failures"), {"flow": "probe", "days": "1"}).status_code == 403
