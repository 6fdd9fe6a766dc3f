"""Fixtures every test may use."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Barrier
from typing import Any

import httpx
import pytest
from django.db import connection
from django.test import override_settings
from whitenoise.middleware import WhiteNoiseMiddleware

from pipeline.config import pipeline_settings
from pipeline.steps.analyse import analyse
from pipeline.steps.pdf import text_child
from pipeline.tasks import pages
from queuemgr.base import process_state
from queuemgr.base.config import observability_settings, queue_settings
from queuemgr.base.scheduler_lock import database_now
from queuemgr.base.settings_group import COMMAND_LINE, SettingsGroup
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.flows.flow import all_queues, application_flows
from queuemgr.lifecycle.scheduler import FreeSlots
from queuemgr.models import Limit, Worker
from queuemgr.scheduling import limit_rows, phase_settings
from queuemgr.scheduling.capacity import group_of
from queuemgr.worker.celery_app import active_apps
from tests.flush_tables import flush_quickly
from tests.fork_server import ForkServer
from tests.shell import Shell


def pytest_configure() -> None:
    """The garbage collector looks less often: for a fourteenth of the time of tests, and an eighth less of
    that of their collection. So it does in the process that leads others, which keeps all their reports."""
    gc.set_threshold(50_000, 20, 100)


def pytest_collection_finish() -> None:
    """What is imported and collected stays to the end: the garbage collector need not look at it again, which
    takes half a second each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _flush_of_all_tables() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        flush_quickly(patch)
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_flow_is_registered_by_an_import() -> None:
    """Every process of the tests imports every test module: a flow registered there would be in all tests."""
    assert {flow.name for flow in application_flows()} == {"papers"}


@pytest.fixture(autouse=True, scope="session")
def _quick_hashes() -> Iterator[None]:
    """A second of processor time for each password is for those who guess."""
    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        yield


@pytest.fixture(autouse=True, scope="session")
def _static_files_are_listed_once() -> Iterator[None]:
    """A client for each test makes the middleware anew, which looks at every static file."""
    listed: dict[str, Any] = {}
    find = WhiteNoiseMiddleware.add_files_from_finders

    def add(middleware: WhiteNoiseMiddleware) -> None:
        if not listed:
            find(middleware)
            listed.update(middleware.files)
        middleware.files.update(listed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WhiteNoiseMiddleware, "add_files_from_finders", add)
        yield


@pytest.fixture(autouse=True, scope="session")
def _certificates_are_read_once() -> Iterator[None]:
    """Each client of HTTP reads those of all authorities, for 25 ms of processor time."""
    once = cache(httpx.create_ssl_context)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpx, "create_ssl_context", once)
        patch.setattr("httpx._transports.default.create_ssl_context", once)
        yield


@pytest.fixture(autouse=True, scope="session")
def _settings_of_one_environment_are_parsed_once() -> Iterator[None]:
    """Each test reads settings anew, several groups of them, mostly from the same environment."""
    parse: Any = vars(SettingsGroup)["load"].__func__
    parsed: dict[Any, SettingsGroup] = {}
    environment: dict[bytes, bytes] = vars(os.environ)["_data"]  # to decode it takes longer than the rest

    def load(cls: type[SettingsGroup], settings: Any = None) -> SettingsGroup:
        stated = [cls._stated(cls.variable(name), settings or {}) for name in cls.model_fields]
        try:
            known = (cls, repr(stated), frozenset(environment.items()))
        except ValueError:  # Python does not write a number of thousands of digits
            return parse(cls, settings)  # type: ignore[no-any-return]  # as it is declared
        if known not in parsed:
            parsed[known] = parse(cls, settings)
        group = parsed[known]
        group._mask_secrets()
        return group

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SettingsGroup, "load", classmethod(load))
        yield


@pytest.fixture(autouse=True)
def _fresh_process_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test has its own database, environment and command line: nothing cached may leak."""
    monkeypatch.setenv(COMMAND_LINE, os.environ.get(COMMAND_LINE, "{}"))
    process_state.reset_all()
    yield
    process_state.reset_all()


@pytest.fixture(autouse=True)
def _no_application_of_celery_is_left() -> Iterator[None]:
    """The system checks see those of the whole process: a test closes what it makes."""
    before = {app.main for app in active_apps()}
    yield
    assert {app.main for app in active_apps()} <= before


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    server = ForkServer()
    yield server
    server.close()


@pytest.fixture(scope="session")
def shell(fork_server: ForkServer) -> Shell:
    return Shell(fork_server)


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set settings for one test: `settings(max_workers=3)`."""

    def set_settings(**values: Any) -> None:
        for name, value in values.items():
            monkeypatch.setenv(f"SLUICE_{name.upper()}", str(value))
        for loader in (queue_settings, observability_settings, phase_settings.load, pipeline_settings):
            loader.cache_clear()

    return set_settings


@pytest.fixture
def texts_are_read_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts of strangers are read by the functions of the child, without one: what they are read in has tests
    of its own."""

    def read(function: str, limits: object, signal: AbortSignal, **arguments: Any) -> Any:
        signal.raise_if_aborted()
        return json.loads(json.dumps(text_child.FUNCTIONS[function](**arguments)))

    for module in (analyse, pages):
        monkeypatch.setattr(module, "read_in_child", read)


@pytest.fixture
def make_worker() -> Callable[..., Worker]:
    """Enter a live worker in the fleet: `make_worker(slots=3, queues=[...])`."""

    def make(slots: int = 8, queues: list[str] | None = None, name: str = "w@test") -> Worker:
        limit_rows.sync(update=Limit.objects.exists())  # where there were no rows, none is out of date
        now = database_now()
        return Worker.objects.create(
            name=name, host="test", pid=1, queues=queues or all_queues(), slots=slots,
            started_at=now, seen_at=now,
        )  # fmt: skip

    return make


@pytest.fixture
def in_threads() -> Callable[..., list[Any]]:
    """Run a function in so many threads at once: `in_threads(4, enqueue_some)` calls it with 0 to 3;
    each has a database connection of its own."""

    def run(count: int, act: Callable[[int], Any]) -> list[Any]:
        barrier = Barrier(count)

        def together(number: int) -> Any:
            try:
                barrier.wait(timeout=30)
                return act(number)
            finally:
                connection.close()

        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(together, range(count)))

    return run


@pytest.fixture
def free_slots_of() -> Callable[..., FreeSlots]:
    """The free slots of a worker that just ended so many steps."""

    def free_slots(worker: Worker, free: int = 1) -> FreeSlots:
        return FreeSlots(worker.pk, group_of(worker.queues, has_async=False), free)

    return free_slots


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Catch what would be published instead of publishing it: these tests play the worker."""
    from queuemgr.lifecycle import publish

    caught: list[Any] = []
    monkeypatch.setattr(publish, "send", lambda grants: caught.extend(grants) or len(grants))
    return caught
