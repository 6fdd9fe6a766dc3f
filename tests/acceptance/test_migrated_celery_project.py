"""A project that runs Celery already, with PostgreSQL, Redis, a prefork pool, a time limit for all tasks and
the admin in another theme: its tasks move to the queue by one line each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from tests.acceptance.adopter_project import Project
from tests.acceptance.conftest import MakeWarmEnvironment
from tests.acceptance.databases import PostgresDatabase
from tests.private_servers import POSTGRES, REDIS

HOSTS, AT_ONCE = 2, 1

TASKS = """
import time
from pathlib import Path
from celery import shared_task

def note(event, host):
    with Path("runs.log").open("a") as file:
        file.write(f"{time.monotonic()} {event} {host}\\n")

@shared_task
def send(host, number):
    note("begin", host)
    time.sleep(0.005)
    note("end", host)
    return {"sent": number}

@shared_task(bind=True, autoretry_for=(ConnectionError,), max_retries=3, default_retry_delay=0)
def flaky(self, text):
    if self.request.retries < 2:
        raise ConnectionError("not yet")
    return f"{text} after {self.request.retries} retries"

@shared_task
def untouched(a, b):
    return a * b
"""

ONE_LINE_PER_TASK = (
    (
        "@shared_task\ndef send(",
        f'@shared_task(base=QueuedTask, limits={{"host:{{host}}": {AT_ONCE}}})\ndef send(',
    ),
    ("@shared_task(bind=True, auto", "@shared_task(base=QueuedTask, bind=True, auto"),
    ("from celery import shared_task\n", "from celery import shared_task\nfrom queuemgr import QueuedTask\n"),
)

CELERY_APP = """
import os
from celery import Celery
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
app = Celery("shop")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
"""

SETTINGS = """
INSTALLED_APPS = ["unfold", *INSTALLED_APPS]
DATABASES = {{"default": {{"ENGINE": "django.db.backends.postgresql", "NAME": "{name}", "USER": "sluice",
                         "PASSWORD": "{password}", "HOST": "127.0.0.1", "PORT": "{port}"}}}}
CELERY_BROKER_URL = "{broker}"
CELERY_RESULT_BACKEND = "{broker}"
CELERY_TASK_TIME_LIMIT = 60
"""

CALL_THEM = f"""
import json
from django.db import transaction
from mail.tasks import flaky, send, untouched
calls = {{calls}}
with transaction.atomic():
    handles = [send.delay(f"h{{n % {HOSTS}}}", n) for n in range(calls)]
again = flaky.delay("done")
print(json.dumps({{
    "sent": [handle.get(timeout=120)["sent"] for handle in handles],
    "flaky": again.get(timeout=120), "untouched": untouched.delay(6, 7).get(timeout=60),
    "states": sorted({{handle.status for handle in handles}}),
}}))
"""


@pytest.fixture
def project(tmp_path: Path, make_warm_environment: MakeWarmEnvironment) -> Iterator[Project]:
    database = PostgresDatabase.create(POSTGRES)
    project = Project(tmp_path, make_warm_environment("web", "postgres").directory, TASKS)
    (tmp_path / "shop" / "celery.py").write_text(CELERY_APP)
    (tmp_path / "shop" / "__init__.py").write_text("from shop.celery import app as celery_app\n")
    with Redis.from_url(REDIS.url) as client:
        client.flushall()
    project.state(
        SETTINGS.format(name=database.name, password=POSTGRES.password, port=POSTGRES.port, broker=REDIS.url)
    )
    project.run("manage.py", "migrate", "-v", "0")
    yield project
    database.drop()


@pytest.mark.parametrize("calls", [100, pytest.param(1000, marks=pytest.mark.slow_proof)])
def test_delay_calls_of_a_celery_project_move_to_the_queue_by_one_line_per_task(
    project: Project, calls: int
) -> None:
    move_by_one_line_per_task(project)
    worker = project.start("worker", "-m", "celery", "-A", "shop", "worker", "-c", "3", "-l", "INFO")
    try:
        printed = json.loads(
            project.run("manage.py", "shell", "-v", "0", "-c", CALL_THEM.replace("{calls}", str(calls)))
        )
    finally:
        worker.stop()
    assert printed["sent"] == list(range(calls)), worker.output
    assert printed["states"] == ["done"]
    assert printed["flaky"] == "done after 2 retries"
    assert printed["untouched"] == 42
    most, begun = running_at_once(project.directory / "runs.log")
    assert begun == calls
    assert most == {f"h{n}": AT_ONCE for n in range(HOSTS)}
    assert "Traceback" not in worker.output.replace("ConnectionError", "")


def move_by_one_line_per_task(project: Project) -> None:
    path = project.directory / "mail" / "tasks.py"
    text = path.read_text()
    for before, after in ONE_LINE_PER_TASK:
        assert text.count(before) == 1
        text = text.replace(before, after)
    path.write_text(text)


def running_at_once(log: Path) -> tuple[dict[str, int], int]:
    """The most calls of each host that ran at the same time, and how many began."""
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()
    events = sorted(line.split() for line in log.read_text().splitlines())
    for _, event, host in sorted(events, key=lambda each: float(each[0])):
        running[host] += 1 if event == "begin" else -1
        most[host] = max(most[host], running[host])
    return dict(most), sum(event == "begin" for _, event, _ in events)
