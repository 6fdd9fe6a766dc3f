"""What a caller may send that would harm those who come after: far times, probes, half a refusal."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from queuemgr.base.errors import BadInput
from queuemgr.flows.flow import NewExecution
from queuemgr.lifecycle import enqueue
from queuemgr.models import AuditEntry, Batch, Execution, Queue, State
from queuemgr.operations import batches, controls
from queuemgr.operations.controls import Actor
from queuemgr.reporting.filtering import executions_matching
from tests.integration.web.api.api_client import Api, api, problem

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("static_root")]

FAR = ["9999-12-31T23:59:59-12:00", "9000-01-01T00:00:00Z", "2060-01-01T00:00:00Z"]
ANN = Actor("ann", "command")


@pytest.fixture
def caller() -> Api:
    return api()


@pytest.mark.parametrize("until", FAR)
def test_a_pause_cannot_end_beyond_the_years_a_database_stores(caller: Api, until: str) -> None:
    problem(caller.post("pause", {"target": "prep.low", "until": until}), "invalid")
    assert not Queue.objects.filter(paused_at__isnull=False).exists()
    assert caller.get("stats").status_code == 200


@pytest.mark.parametrize("when", FAR)
def test_work_is_rescheduled_by_ten_years_at_most(caller: Api, when: str) -> None:
    body = {"flow": "probe", "key": "x", "run_after": when}
    problem(caller.post("executions", body), "invalid")
    assert not Execution.objects.exists()


def test_a_time_too_far_ahead_is_refused_for_every_caller() -> None:
    far = timezone.now() + enqueue.MAX_HORIZON * 2
    with pytest.raises(BadInput, match="more than ten years ahead"):
        enqueue.enqueue("probe", "x", run_after=far)
    with pytest.raises(BadInput, match="more than ten years ahead"):
        controls.pause("prep.low", ANN, far)


@pytest.mark.parametrize("payload", [{"trace": "/tmp/x"}, {"die": True}])
def test_a_retry_accepts_no_payload_fields_that_enqueue_would_refuse(
    caller: Api, payload: dict[str, Any]
) -> None:
    enqueue.enqueue("probe", "x")
    Execution.objects.update(state=State.FAILED, route=None, finished_at=timezone.now())
    pk = Execution.objects.get().pk
    problem(caller.post(f"executions/{pk}/retry", {"payload": payload}), "invalid")
    assert Execution.objects.get().payload == {}


@pytest.mark.parametrize("to", ["executions/many", "batches/b/add"])
def test_one_item_that_never_fits_refuses_all(caller: Api, to: str) -> None:
    batches.open_batch("b", "probe", ANN)
    controls.edit_limit("host:a", ANN, max_running=2)
    items: list[Any] = [{"key": f"k{n}"} for n in range(600)]
    items[550]["payload"] = {"limit_key": "host:a", "weight": 3}
    body = {"items": items} if "batches" in to else {"items": items, "flow": "probe"}
    problem(caller.post(to, body), "never-fits")
    assert not Execution.objects.exists()
    assert not AuditEntry.objects.filter(action="enqueue").exists()


def test_a_batch_named_like_the_number_of_another_is_found_by_its_name() -> None:
    other = batches.open_batch("other", "probe", ANN)
    batches.add(other, [NewExecution("theirs", {})])
    named = batches.open_batch(str(other.pk), "probe", ANN)
    batches.add(named, [NewExecution("mine", {})])
    found = executions_matching({"batch": str(other.pk)})
    assert [execution.key for execution in found] == ["mine"]
    assert Batch.objects.count() == 2
