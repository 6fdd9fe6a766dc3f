"""Chains, groups and chords that mix plain and queued tasks, with Redis as broker and result backend: `get()`
of each returns, whatever it ends in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from tests.acceptance.adopter_project import Project
from tests.acceptance.conftest import MakeWarmEnvironment
from tests.acceptance.test_migrated_celery_project import CELERY_APP
from tests.private_servers import REDIS

BACKEND = f"{REDIS.url.rpartition('/')[0]}/9"
"""A database of the server that no other test uses."""

TASKS = """
from celery import shared_task
from queuemgr import QueuedTask

@shared_task
def plain(number):
    return number + 1

@shared_task
def add_all(numbers):
    return sum(numbers)

@shared_task(base=QueuedTask, limits={"host:a": 2})
def queued(number):
    if number == 7:
        raise ValueError("seven")
    return number + 1

@shared_task(base=QueuedTask)
def queued_sum(numbers):
    return sum(numbers)

@shared_task(base=QueuedTask, max_retries=0)
def note(task_id):
    return task_id
"""

ASK = """
import json
from celery import chain, chord, current_app, group
from celery.result import AsyncResult
from mail.tasks import add_all, note, plain, queued, queued_sum
from queuemgr import Handle

def end_of(asked):
    try:
        return asked.get(timeout=120)
    except Exception as error:
        return f"{type(error).__name__}: {error}"

asked = {
    "plain, queued": chain(plain.s(1), queued.s()),
    "queued, plain": chain(queued.s(1), plain.s()),
    "queued, queued, plain, queued": chain(queued.s(1), queued.s(), plain.s(), queued.s()),
    "a failure in the middle": chain(plain.s(6), queued.s(), plain.s()),
    "a failure at the end": chain(plain.s(6), queued.s()),
    "a group of both": group(plain.s(1), queued.s(2), plain.s(3), queued.s(4)),
    "a group of chains": group(chain(plain.s(1), queued.s()), chain(queued.s(2), plain.s())),
    "a queued body": chord([plain.s(1), plain.s(2)], queued_sum.s()),
    "a queued header": chord([queued.s(1), queued.s(2)], add_all.s()),
    "both in the header": chord([plain.s(1), queued.s(2), plain.s(3)], queued_sum.s()),
    "a chord continues": chain(group(plain.s(1), queued.s(2)), queued_sum.s(), plain.s()),
    "a failure in the header": chord([plain.s(6), queued.s(7)], queued_sum.s()),
    "what the function does not take": chain(plain.s(1), queued.s("two"), plain.s()),
}
results = {name: canvas.apply_async() for name, canvas in asked.items()}
queued.apply_async((7,), task_id="bad", link_error=note.s().set(task_id="noted"))
queued.apply_async((1,), task_id="mine")
ends = {name: end_of(result) for name, result in results.items()}
ends["by its id"] = end_of(AsyncResult("mine"))
ends["its error callback"] = end_of(AsyncResult("noted"))
current_app.conf.task_always_eager = True
well = [canvas for name, canvas in asked.items() if "failure" not in name and "not take" not in name]
ends["eager"] = [end_of(canvas.apply_async()) for canvas in well]
print(json.dumps(ends))
"""


@pytest.fixture
def project(tmp_path: Path, make_warm_environment: MakeWarmEnvironment) -> Iterator[Project]:
    project = Project(tmp_path, make_warm_environment().directory, TASKS)
    (tmp_path / "shop" / "celery.py").write_text(CELERY_APP)
    (tmp_path / "shop" / "__init__.py").write_text("from shop.celery import app as celery_app\n")
    project.state(f'CELERY_BROKER_URL = CELERY_RESULT_BACKEND = "{BACKEND}"')
    project.run("manage.py", "migrate", "-v", "0")
    with Redis.from_url(BACKEND) as client:
        client.flushdb()
        yield project
        client.flushdb()


@pytest.mark.parametrize("pool", ["threads", pytest.param("prefork", marks=pytest.mark.slow_proof)])
def test_every_canvas_ends_with_its_result_or_its_error(project: Project, pool: str) -> None:
    worker = project.start(
        "worker", "-m", "celery", "-A", "shop", "worker", "-P", pool, "-c", "4", "-l", "INFO"
    )
    try:
        ends = json.loads(project.run("manage.py", "shell", "-v", "0", "-c", ASK))
    finally:
        worker.stop()
    eager = ends.pop("eager")
    failures = {name: ends.pop(name) for name in [*ends] if "failure" in name or "not take" in name}
    assert ends == {
        "plain, queued": 3, "queued, plain": 3, "queued, queued, plain, queued": 5,
        "a group of both": [2, 3, 4, 5], "a group of chains": [3, 4], "a queued body": 5,
        "a queued header": 5, "both in the header": 9, "a chord continues": 6, "by its id": 2,
        "its error callback": "bad",
    }, worker.output  # fmt: skip
    assert failures.pop("what the function does not take").startswith("BadInput: mail.tasks.queued")
    assert "seven" in failures.pop("a failure in the header")
    assert all(said.startswith("TaskFailed") and "seven" in said for said in failures.values()), failures
    assert eager == [3, 3, 5, [2, 3, 4, 5], [3, 4], 5, 5, 9, 6]
    assert "could not be notified" not in worker.output, worker.output
