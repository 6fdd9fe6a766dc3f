"""What is asked for a paper is asked for it however it comes in, and however often it is retried."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from pipeline import intake
from pipeline.management.commands import up
from pipeline.models import FLOW, Document, ExtractionSchema
from queuemgr.flows.flow import PRIORITIES
from queuemgr.models import Execution, State
from queuemgr.operations import batches, controls, executions
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import limit_rows
from queuemgr.worker import housekeeping
from tests.integration.cli.commands import queue
from tests.integration.web.api.api_client import api

pytestmark = pytest.mark.django_db(transaction=True)

ANN = Actor("ann", "test")
SCHEMA = {"type": "object", "properties": {"gates": {"type": "integer"}}}
DIGEST = intake._read(SCHEMA).digest


class Wish(NamedTuple):
    """How a thing is asked for, and what the execution is then to have."""

    options: Sequence[str]
    record: dict[str, Any] = {}
    payload: dict[str, Any] = {}
    priority: str = "normal"

    @property
    def line(self) -> str:
        return json.dumps({"id": "2101.00001", **self.record})


WISHES = {
    "force_ocr": Wish(["--force-ocr"], {"force_ocr": True}, {"force_ocr": True}),
    "lookup_references": Wish(
        ["--lookup-references"], {"lookup_references": True}, {"lookup_references": True}
    ),
    "schema": Wish(["--schema", "s.json"], {"schema": SCHEMA}, {"schema": DIGEST}),
    "priority": Wish(["--priority", "high"], priority="high"),
}
WISHES["all of them"] = Wish(
    [word for wish in WISHES.values() for word in wish.options],
    {name: value for wish in WISHES.values() for name, value in wish.record.items()},
    {name: value for wish in WISHES.values() for name, value in wish.payload.items()},
    "high",
)


def _backfill() -> None:
    housekeeping.backfill(10)


def _held(*arguments: str) -> None:
    assert queue("import", "--hold", *arguments).code == 0
    assert not Execution.objects.exists()
    _backfill()


def _held_before(wish: Wish) -> None:
    assert queue("import", "--hold", "plain.txt").code == 0
    _held("plain.txt", *wish.options)


def _into_a_full_queue(enter: Callable[[], object], wish: Wish) -> None:
    """Refused at first, and held; then it drains."""
    line = f"prep.{wish.priority}"
    controls.edit_queue(line, ANN, max_pending=1)
    assert queue("enqueue", "2101.00009", "--priority", wish.priority).code == 0
    enter()
    assert Document.objects.count() == 2 and Execution.objects.count() == 1
    Execution.objects.all().delete()
    Document.objects.filter(key__endswith="9").delete()
    _backfill()


def _batch(*arguments: str) -> None:
    batches.open_batch("nightly", FLOW, ANN)
    assert queue(arguments[0], arguments[1], "nightly", *arguments[2:]).code == 0


def _posted(path: str, body: dict[str, Any], wish: Wish) -> None:
    robot = api(name=f"robot {hash(wish.line)} {wish.priority}")
    assert robot.post(path, {**body, "priority": wish.priority}).status_code in (200, 201)


def _refused(path: str, body: dict[str, Any]) -> None:
    assert api(name=f"robot {hash(str(body))}").post(path, body).status_code == 429


def _typed(wish: Wish) -> None:
    """In the admin's form, which has a box for each flag."""
    user, _ = User.objects.get_or_create(username="sam", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=("add_execution", "view_execution")))
    client = Client()
    client.force_login(user)
    record = {"id": "2101.00001", **{name: wish.record[name] for name in wish.record.keys() - intake.FLAGS}}
    boxes = {f"flag-{name}": "on" for name in wish.record.keys() & intake.FLAGS}
    form = {"flow": FLOW, "item": json.dumps(record), "priority": wish.priority, **boxes}
    client.post("/admin/queuemgr/execution/enqueue/", form)


def _by_record(wish: Wish) -> list[str]:
    return ["--priority", wish.priority]


WAYS: dict[str, Callable[[Wish], object]] = {
    "queue enqueue": lambda wish: queue("enqueue", "2101.00001", *wish.options),
    "queue enqueue, in a record": lambda wish: queue("enqueue", wish.line, *_by_record(wish)),
    "queue import": lambda wish: queue("import", "plain.txt", *wish.options),
    "queue import, in a line": lambda wish: queue("import", "records.jsonl", *_by_record(wish)),
    "queue import --hold": lambda wish: _held("plain.txt", *wish.options),
    "queue import --hold, in a line": lambda wish: _held("records.jsonl", *_by_record(wish)),
    "queue import --hold of one that is held": _held_before,
    "queue enqueue into a full queue": lambda wish: _into_a_full_queue(
        lambda: queue("enqueue", "2101.00001", *wish.options), wish
    ),
    "queue import into a full queue": lambda wish: _into_a_full_queue(
        lambda: queue("import", "records.jsonl", *_by_record(wish)), wish
    ),
    "the API into a full queue": lambda wish: _into_a_full_queue(
        lambda: _refused("executions", {"item": wish.line, "priority": wish.priority}), wish
    ),
    "the admin": _typed,
    "the admin into a full queue": lambda wish: _into_a_full_queue(lambda: _typed(wish), wish),
    "queue import --batch": lambda wish: _batch("import", "--batch", "plain.txt", *wish.options),
    "queue batch add": lambda wish: _batch("batch", "add", "2101.00001", *wish.options),
    "queue batch add --file": lambda wish: _batch("batch", "add", "--file", "plain.txt", *wish.options),
    "POST executions": lambda wish: _posted("executions", {"item": wish.line}, wish),
    "POST executions/many": lambda wish: _posted("executions/many", {"items": [wish.line]}, wish),
    "up": lambda wish: up._enqueue([wish.line]),
}

AFTERWARDS: dict[str, Callable[[], object]] = {
    "retry": lambda: queue("retry", "arxiv:2101.00001"),
    "retry from the start": lambda: queue("retry", "arxiv:2101.00001", "--from-start", "--reason", "x"),
    "retry in bulk": lambda: executions.retry(Execution.objects.all(), ANN),
}


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: list[Any], static_root: None) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.json").write_text(json.dumps(SCHEMA))
    Path("plain.txt").write_text("2101.00001")
    limit_rows.sync()


def _has_what_was_asked(wish: Wish) -> None:
    one = Execution.objects.get()
    assert one.payload == {"kind": "arxiv", **wish.payload}
    assert one.priority == PRIORITIES[wish.priority]
    assert "schema" not in wish.payload or ExtractionSchema.objects.filter(pk=DIGEST).exists()


@pytest.mark.parametrize("way", WAYS)
def test_every_option_survives_every_way_in(way: str) -> None:
    assert {*intake.FLAGS, *intake.FILES, "priority", "all of them"} == WISHES.keys(), "a new one is tried"
    for name, wish in WISHES.items():
        if way == "up" and wish.priority != "normal":
            continue  # which has no such option
        Path("records.jsonl").write_text(wish.line)
        WAYS[way](wish)
        _has_what_was_asked(wish)
        for model in (Execution, batches.Batch, Document, ExtractionSchema):
            model.objects.all().delete()
        assert not Document.objects.exists(), name


@pytest.mark.parametrize("afterwards", AFTERWARDS)
def test_every_option_survives_retries(afterwards: str) -> None:
    wish = WISHES["all of them"]
    queue("enqueue", "2101.00001", *wish.options)
    for _ in range(2):
        executions.cancel(Execution.objects.all(), ANN)
        AFTERWARDS[afterwards]()
        assert Execution.objects.get().state == State.WAITING
        _has_what_was_asked(wish)
