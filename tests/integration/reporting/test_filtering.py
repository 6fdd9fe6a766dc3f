"""Which executions a filter finds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from queuemgr.base.errors import BadInput
from queuemgr.flows.flow import HIGH
from queuemgr.flows.outcomes import Failed
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import Batch, Execution, State
from queuemgr.operations import executions
from queuemgr.operations.controls import Actor
from queuemgr.reporting.filtering import FILTERS, executions_matching

pytestmark = pytest.mark.django_db(transaction=True)


def keys(*, bounded: bool = False, **filters: Any) -> list[str]:
    return sorted(executions_matching(filters, bounded=bounded).values_list("key", flat=True))


@pytest.fixture
def three(played: Any, probes: Any) -> None:
    """`failed0` failed at host:a on w@one, `runs0` runs there for acme, `waits0` waits for host:b."""
    worker = played(slots=1, name="w@one")
    probes(1, prefix="failed", limit_key="host:a")
    (grant,) = worker.begin_all()
    worker.end(grant, Failed("not_found", "no such PAGE"))
    probes(1, prefix="runs", limit_key="host:a", tenant="acme", phase="wrap")
    worker.begin_all()
    probes(1, HIGH, prefix="waits", limit_key="host:b")


FAILED, RUNS, WAITS = ["failed0"], ["runs0"], ["waits0"]


FOUND: tuple[tuple[dict[str, Any], list[str]], ...] = (
    ({}, [*FAILED, *RUNS, *WAITS]),
    ({"flow": "probe", "phase": "prep"}, FAILED + WAITS),
    ({"flow": "papers"}, []),
    ({"step": "probe", "priority": "high"}, WAITS),
    ({"state": "running"}, RUNS),
    ({"status": "wrapping"}, RUNS),
    ({"status": "pending"}, WAITS),
    ({"status": "failed"}, FAILED),
    ({"error_kind": "not_found"}, FAILED),
    ({"text": "such page"}, FAILED),
    ({"text": "%"}, []),
    ({"key": "waits0"}, WAITS),
    ({"key": "waits"}, []),
    ({"key_prefix": "wai"}, WAITS),
    ({"limit": "host:a"}, FAILED + RUNS),
    ({"limit": "host:b"}, WAITS),
    ({"limit": "tenant:acme"}, RUNS),
    ({"limit": "host:"}, []),
    ({"worker": "w@one"}, FAILED + RUNS),
    ({"worker": "w@two"}, []),
)


@pytest.mark.parametrize("bounded", [False, True])
def test_each_filter_finds_what_it_names(three: None, bounded: bool) -> None:
    assert [(filters, keys(bounded=bounded, **filters)) for filters, _ in FOUND] == [*FOUND]


def test_ended_work_is_found_by_the_limit_of_its_last_attempt_only(played: Any, probes: Any) -> None:
    worker = played(slots=1)
    (execution,) = probes(1, limit_key="host:a")
    (grant,) = worker.begin_all()
    worker.end(grant, Failed("network", "x"))
    Execution.objects.update(payload={"limit_key": "host:b"})
    by = Actor("ann", "admin")
    assert executions.cancel([execution], by) + executions.retry([execution], by) == 2
    (grant,) = worker.begin_all()
    worker.end(grant, Failed("not_found", "x"))
    for bounded in (False, True):
        found = [keys(limit=name, bounded=bounded) for name in ("host:a", "host:b")]
        assert found == [[], ["p0"]]


def test_age_ids_batch_and_fingerprint_narrow_too(probes: Any) -> None:
    first, second = probes(2)
    batch = Batch.objects.create(name="spring", flow="probe")
    long_ago = timezone.now() - timedelta(days=3)
    Execution.objects.filter(pk=first.pk).update(
        created_at=long_ago, batch=batch, batch_seq=0, error_fingerprint="ab" * 8, error_kind="x"
    )
    an_hour = (timezone.now() - timedelta(hours=1)).isoformat()
    assert keys(created_before=an_hour) == keys(batch="spring") == keys(batch=batch.pk) == ["p0"]
    assert keys(created_before=an_hour, bounded=True) == ["p0"]
    assert keys(error_fingerprint="ab" * 8) == keys(ids=[first.pk]) == ["p0"]
    assert keys(created_after=an_hour) == ["p1"]
    assert keys(ids=[first.pk, second.pk], created_after="2026-01-01 06:00") == ["p0", "p1"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("filters", "says"),
    [
        ({"colour": "red"}, "no filter is called 'colour'; there are: flow, "),
        ({"state": "lost"}, "state 'lost' is not one of waiting, leased"),
        ({"status": "ready"}, "status 'ready' is not one of pending, prepping"),
        ({"priority": 1}, "priority 1 is not one of high, normal, low"),
        ({"flow": ""}, "flow is a text of 1 to 255 characters"),
        ({"key_prefix": "a\x00"}, "key_prefix is a text"),
        ({"limit": ["host:a"]}, "limit is a text"),
        ({"batch": "winter"}, "no batch is called 'winter'"),
        ({"batch": "9" * 30}, "no batch is called '9"),
        ({"created_after": "yesterday"}, "'yesterday' is no time; write it as 2026"),
        ({"ids": ["1"]}, "ids is a list of whole numbers"),
        ({"ids": list(range(501))}, "at most 500 fit"),
    ],
)
def test_an_invalid_filter_is_refused_by_name(filters: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        executions_matching(filters)


def test_every_filter_is_tested_here() -> None:
    tried = {
        "flow", "phase", "step", "state", "status", "error_kind", "error_fingerprint", "key",
        "key_prefix", "text", "limit", "worker", "batch", "priority", "created_before",
        "created_after", "ids",
    }  # fmt: skip
    assert set(FILTERS) == tried


def test_a_leased_execution_is_running_to_an_operator(played: Any, probes: Any) -> None:
    played(slots=1)
    enqueue("probe", "x")
    probes(1)
    assert len(executions_matching({"status": "prepping"})) == 1
    assert Execution.objects.filter(state=State.LEASED).count() == 1
