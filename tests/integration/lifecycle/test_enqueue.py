"""Storing first: one execution per key, refusals that name the remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from queuemgr.base.errors import BadInput, NeverFits, UnknownFlow
from queuemgr.flows.flow import NewExecution
from queuemgr.lifecycle.enqueue import enqueue, enqueue_many
from queuemgr.models import Execution
from queuemgr.scheduling import limit_rows

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_same_key_twice_is_one_execution_and_the_second_call_says_so(sent: list[Any]) -> None:
    assert enqueue("probe", "a") is True
    assert enqueue("probe", "a") is False
    assert Execution.objects.count() == 1


def test_bulk_enqueue_says_exactly_how_many_were_new_even_with_repeats_in_the_call(sent: list[Any]) -> None:
    enqueue("probe", "k1")
    done = enqueue_many("probe", (NewExecution(f"k{n % 1200}") for n in range(2400)))
    assert (done.new, done.already) == (1199, 1201)
    assert Execution.objects.count() == 1200


def test_the_same_key_in_two_flows_is_two_executions(sent: list[Any]) -> None:
    enqueue("probe", "k")
    enqueue("papers", "k", {"kind": "url"})
    assert Execution.objects.filter(key="k").count() == 2


def test_nothing_is_sent_before_the_transaction_that_enqueued_commits(
    played: Callable[..., Any], sent: list[Any]
) -> None:
    """A task must not start before its row can be seen."""
    played(slots=2)
    with transaction.atomic():
        enqueue("probe", "k")
        assert sent == []
    assert [grant.key for grant in sent] == ["k"]


def test_an_enqueue_rolled_back_leaves_nothing_behind(played: Callable[..., Any], sent: list[Any]) -> None:
    played(slots=2)
    with pytest.raises(RuntimeError), transaction.atomic():
        enqueue("probe", "k")
        raise RuntimeError
    assert sent == []
    assert not Execution.objects.exists()


def test_work_that_can_never_fit_is_refused_naming_the_setting(
    configure: Callable[..., None], sent: list[Any]
) -> None:
    """It must not wait for ever behind a message that says busy."""
    configure(daily_budget=5)
    limit_rows.sync()
    with pytest.raises(NeverFits, match=r"6 requests is above the allowance 5 requests/day of limit 'fleet'"):
        enqueue("probe", "k", {"requests": 6})
    assert not Execution.objects.exists()


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_a_key_that_does_not_fit_a_row_is_refused_by_name(key: str, sent: list[Any]) -> None:
    with pytest.raises(BadInput, match="1 to 255 fit"):
        enqueue("probe", key)


def test_an_unknown_flow_is_refused_with_the_known_ones(sent: list[Any]) -> None:
    with pytest.raises(UnknownFlow, match="registered: papers, probe"):
        enqueue("paper", "k")
