"""Names of limits that a person writes: a mistyped one is refused, a key that comes later is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from queuemgr.base.errors import BadInput
from queuemgr.flows import flow
from queuemgr.models import AuditEntry, Limit
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.operations.limit_names import UnknownLimit

pytestmark = pytest.mark.django_db
ANN = Actor("ann", "test")

ACTS: dict[str, Callable[..., Any]] = {
    "pause": lambda name, **new: controls.pause(name, ANN, **new),
    "edit": lambda name, **new: controls.edit_limit(name, ANN, max_running=3, **new),
}


@pytest.fixture(params=ACTS)
def act(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return ACTS[request.param]


@pytest.fixture
def named_by_a_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flow's work runs under these, and it states nothing of them."""
    names = ("smtp:*", "mail-service", "bulk-*")
    known = flow._flows["papers"]
    monkeypatch.setitem(flow._flows, "papers", replace(known, limit_names=names))


@pytest.mark.parametrize(
    ("mistyped", "meant"),
    [
        ("hots:mail", "host:mail"), ("hots:*", "host:*"), ("resolvers:arxiv", "resolver:arxiv"),
        ("phase:perp", "phase:prep"), ("fleets", "fleet"), ("llm-chat", "llm:chat"), ("stmp:a", "smtp:a"),
        ("mail-servce", "mail-service"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("named_by_a_flow")
def test_a_mistyped_name_is_refused_with_the_one_that_is_meant(act: Any, mistyped: str, meant: str) -> None:
    with pytest.raises(UnknownLimit) as refused:
        act(mistyped)
    assert f"is called {mistyped!r}; did you mean {meant!r}? There are: " in str(refused.value)
    assert "host:*" in str(refused.value)
    assert not Limit.objects.filter(name=mistyped).exists() and not AuditEntry.objects.exists()


@pytest.mark.parametrize("name", ["host:new.example:443", "tenant:acme", "host:api.*", "resolver:later"])
def test_a_key_of_a_kind_that_has_a_row_may_come_later(act: Any, name: str) -> None:
    act(name)
    assert Limit.objects.filter(name=name).exists()


@pytest.mark.parametrize("name", ["smtp:later", "smtp:*", "mail-service", "bulk-acme"])
@pytest.mark.usefixtures("named_by_a_flow")
def test_a_key_that_a_flow_names_may_come_later(act: Any, name: str) -> None:
    act(name)
    assert Limit.objects.filter(name=name).exists()


def test_a_key_of_a_kind_that_work_has_used_may_come_later(act: Any, probes: Any) -> None:
    with pytest.raises(UnknownLimit):
        act("shelf:2")
    probes(1, limit_key="shelf:1")
    act("shelf:2")


def test_another_name_is_made_where_it_is_said_to_be_new(act: Any) -> None:
    act("hots:mail", new=True)
    assert Limit.objects.filter(name="hots:mail").exists()


@pytest.mark.parametrize("name", ["host:", "ho*st:a", "host:a b", "phase:perp", "virtual_time", "cpu=2", "*"])
@pytest.mark.parametrize("new", [True, False])
def test_a_name_under_which_no_work_could_run_is_refused_even_as_new(act: Any, name: str, new: bool) -> None:
    with pytest.raises(BadInput):
        act(name, new=new)
    assert not Limit.objects.filter(name=name).exists()
