"""A worker played by the test, which takes grants, ends leases and dies on command; and people with
browsers, who may see and change what their permissions say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.db.models import QuerySet
from django.test import Client

from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import NORMAL, NewExecution
from queuemgr.flows.outcomes import Done, Result
from queuemgr.lifecycle import begin, finish
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.lifecycle.finish import Finish
from queuemgr.lifecycle.leases import Grant
from queuemgr.models import Execution, Lease, Worker
from queuemgr.scheduling import wakeups
from queuemgr.scheduling.decision_input import LimitRule, rule_for
from queuemgr.scheduling.limit_rules import rules_of


def let_time_pass(executions: QuerySet[Execution]) -> None:
    """Have these fall due now, as if the time they wait for had come."""
    executions.update(run_after=database_now())
    wakeups.post(limits=[wakeups.EVERYTHING])


def rule_of(name: str) -> LimitRule:
    """The rule in force for a limit's name, patterns included."""
    return rule_for(rules_of([name], database_now()), name)


class PlayedWorker:
    """One worker's moves, made by the test."""

    def __init__(self, row: Worker, free_slots_of: Callable[..., Any]) -> None:
        self.row, self._free_slots_of = row, free_slots_of

    def begin_all(self) -> list[Grant]:
        """Begin every lease on its way, as if their messages had come."""
        unstarted = list(Lease.objects.unstarted().values_list("pk", flat=True))
        return begin.begin(unstarted, self.row.pk).grants

    def end(self, grant: Grant, result: Result | None = None, *, next_too: bool = True) -> list[Grant]:
        """End one lease; returns what the slot was handed."""
        free_slots = self._free_slots_of(self.row) if next_too else None
        return finish.finish_batch([Finish(grant.lease_id, result or Done())], free_slots).granted.assigned


@pytest.fixture
def played(
    transactional_db: None, make_worker: Callable[..., Worker], free_slots_of: Any, sent: list[Any]
) -> Callable[..., PlayedWorker]:
    return lambda **given: PlayedWorker(make_worker(**given), free_slots_of)


@pytest.fixture
def probes(transactional_db: None, sent: list[Any]) -> Callable[..., list[Execution]]:
    """Enqueue probes: `probes(3, phase="wrap")`; returns them in order."""

    def make(count: int = 1, priority: int = NORMAL, prefix: str = "p", **payload: Any) -> list[Execution]:
        keys = [f"{prefix}{number}" for number in range(count)]
        enqueue_many("probe", [NewExecution(key, payload) for key in keys], priority=priority)
        dispatch()
        return list(Execution.objects.filter(key__in=keys).order_by("pk"))

    return make


@pytest.fixture(scope="session")
def static_root() -> None:
    """WhiteNoise warns, and warnings are errors, when there is no such directory."""
    Path(settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)


@pytest.fixture
def staff(static_root: None) -> Callable[..., Client]:
    """A browser of someone on the staff who holds just these permissions."""

    def log_in(*codenames: str) -> Client:
        user = User.objects.create_user("sam", is_staff=True)
        held = Permission.objects.filter(codename__in=codenames, content_type__app_label="queuemgr")
        assert held.count() == len(codenames)
        user.user_permissions.set(held)
        client = Client()
        client.force_login(user)
        return client

    return log_in


@pytest.fixture
def operator(staff: Callable[..., Client]) -> Client:
    """Someone who may see all and change all."""
    every = Permission.objects.filter(content_type__app_label="queuemgr")
    return staff(*every.values_list("codename", flat=True))


@pytest.fixture
def superuser(static_root: None) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client
