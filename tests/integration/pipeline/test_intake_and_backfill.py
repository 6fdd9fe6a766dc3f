"""Registered documents are enqueued a few at a time, files of the inbox once they no longer change."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from pipeline import intake
from pipeline.models import FLOW, Document, ExtractionSchema
from queuemgr.base.errors import BadInput
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.models import Execution, State
from queuemgr.operations import executions
from queuemgr.operations.controls import Actor
from queuemgr.worker import housekeeping
from tests import pdf_builder

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _nothing_is_sent(sent: list[Any]) -> None:
    """No message is sent: these tests need no worker."""


@pytest.fixture
def inbox(settings: Any, tmp_path: Path) -> Path:
    settings.SLUICE_INBOX = tmp_path / "inbox"
    settings.SLUICE_INBOX.mkdir()
    return tmp_path / "inbox"


@pytest.fixture(autouse=True)
def _empty_inbox(inbox: Path) -> None:
    """The backfill always reads the inbox."""


def drop(inbox: Path, name: str, age: float = 60) -> Path:
    """A PDF in the inbox, last written `age` seconds ago."""
    path = inbox / name
    path.parent.mkdir(exist_ok=True)
    pdf_builder.written(path.parent, pdf_builder.document([b""]), path.name)
    os.utime(path, (time.time() - age,) * 2)
    return path


def hold(*items: str) -> None:
    intake.store_items(map(intake.parse_item, items))


def know(count: int, first: int = 0) -> None:
    hold(*(f"10.1000/{number}" for number in range(first, first + count)))


def keys() -> list[str]:
    return list(Execution.objects.order_by("pk").values_list("key", flat=True))


# A catalogue


def test_an_imported_catalogue_is_stored_and_nothing_of_it_started(tmp_path: Path) -> None:
    """Millions of lines must not become millions of waiting rows."""
    catalogue = tmp_path / "catalogue.jsonl"
    catalogue.write_text("".join(json.dumps({"doi": f"10.1/{n}"}) + "\n" for n in range(1200)))
    output = io.StringIO()
    call_command("queue", "import", "--hold", str(catalogue), stdout=output)
    assert output.getvalue() == "1200 held, 0 bad\n"
    assert (Document.objects.count(), Execution.objects.count()) == (1200, 0)


def test_a_backfill_starts_a_limited_number_oldest_first_and_continues_next_time() -> None:
    know(25)
    assert [housekeeping.backfill(10) for _ in range(4)] == [
        {"papers": 10}, {"papers": 10}, {"papers": 5}, {"papers": 0},
    ]  # fmt: skip
    assert keys() == [f"doi:10.1000/{number}" for number in range(25)]


def test_a_backfill_without_a_limit_uses_its_setting(configure: Callable[..., None]) -> None:
    configure(seed_limit=7)
    know(10)
    assert housekeeping.backfill() == {"papers": 7}


def test_of_two_concurrent_backfills_only_one_runs() -> None:
    assert [housekeeping.claim("seed", every=60) for _ in range(2)] == [True, False]


def test_a_document_enqueued_by_name_is_not_backfilled_again() -> None:
    know(3)
    enqueue_many(FLOW, [intake.parse_item("10.1000/1")])
    assert housekeeping.backfill(10) == {"papers": 2}
    assert sorted(keys()) == [f"doi:10.1000/{number}" for number in range(3)]
    assert not Document.objects.filter(enqueued=False).exists()


def test_a_running_or_cancelled_document_imported_again_is_not_restarted() -> None:
    know(2)
    housekeeping.backfill(10)
    executions.cancel(Execution.objects.filter(key="doi:10.1000/0"), Actor("ann", "command"))
    know(3)
    assert housekeeping.backfill(10) == {"papers": 1}
    assert Execution.objects.get(key="doi:10.1000/0").state == State.CANCELLED


def test_a_document_without_an_execution_is_found_by_the_next_backfill() -> None:
    hold("10.1000/0")
    assert housekeeping.backfill(10) == {"papers": 1}


def test_finding_what_to_backfill_does_not_read_the_whole_catalogue(
    django_assert_max_num_queries: Any,
) -> None:
    know(2000)
    housekeeping.backfill(1000)
    with django_assert_max_num_queries(26):
        housekeeping.backfill(10)


# The inbox


def test_pdfs_dropped_into_the_inbox_are_started(inbox: Path) -> None:
    drop(inbox, "b.pdf")
    drop(inbox, "a folder/UPPER.PDF")
    assert housekeeping.backfill(10) == {"papers": 2}
    assert {Path(key).name for key in keys()} == {"b.pdf", "UPPER.PDF"}


def test_a_file_still_being_written_is_left_alone_until_it_is_stable(inbox: Path) -> None:
    written = drop(inbox, "a.pdf", age=0)
    assert housekeeping.backfill(10) == {"papers": 0}
    os.utime(written, (time.time() - 60,) * 2)
    assert housekeeping.backfill(10) == {"papers": 1}


def test_the_inbox_is_scanned_repeatedly_and_starts_each_file_once(inbox: Path) -> None:
    drop(inbox, "a.pdf")
    assert [housekeeping.backfill(10) for _ in range(2)] == [{"papers": 1}, {"papers": 0}]


def test_a_full_inbox_is_imported_a_limited_number_at_a_time(inbox: Path) -> None:
    for number in range(5):
        drop(inbox, f"{number}.pdf")
    assert [housekeeping.backfill(3) for _ in range(2)] == [{"papers": 3}, {"papers": 2}]


def test_files_other_than_pdfs_stay_in_the_inbox(inbox: Path) -> None:
    for name in ("notes.txt", "paper.pdf.part", "pdf"):
        (inbox / name).write_text("x")
    (inbox / "folder.pdf").mkdir()
    (inbox / "gone.pdf").symlink_to(inbox / "nowhere.pdf")
    assert housekeeping.backfill(10) == {"papers": 0}


def test_a_file_whose_name_no_row_can_hold_does_not_stop_the_others(
    inbox: Path, caplog: pytest.LogCaptureFixture
) -> None:
    drop(inbox, "good.pdf")
    drop(inbox, os.fsdecode(b"caf\xe9.pdf"))
    drop(inbox, "line\nbreak.pdf")
    with caplog.at_level(logging.WARNING):
        assert housekeeping.backfill(10) == {"papers": 1}
    assert caplog.text.count("file in the inbox skipped") == 2


def test_an_inbox_that_does_not_exist_yet_is_made(inbox: Path) -> None:
    inbox.rmdir()
    assert housekeeping.backfill(10) == {"papers": 0}
    assert inbox.is_dir()


# What a line may say


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('{"id": "2101.00001v2"}', "arxiv:2101.00001v2"),
        ('{"arxiv_id": "hep-th/9901001", "title": "x"}', "arxiv:hep-th/9901001"),
        ('{"doi": "10.1000/AbC"}', "doi:10.1000/abc"),
        ('{"url": "HTTP://Example.org:80/a.pdf"}', "url:http://example.org/a.pdf"),
        ('{"path": "/tmp/a.pdf"}', "file:/tmp/a.pdf"),
        ('  {"id": "", "source": "10.1000/x"}', "doi:10.1000/x"),
        ("  arXiv:2101.00001 ", "arxiv:2101.00001"),
        ("https://doi.org/10.1000/X", "doi:10.1000/x"),
    ],
)
def test_a_line_is_json_or_the_bare_item(line: str, key: str) -> None:
    assert intake.parse_item(line).key == key


def test_the_key_of_a_url_has_no_query_and_is_still_unique() -> None:
    """Queries may contain signatures, and keys appear in logs, reports and file names."""
    urls = [f"https://a.org/x.pdf?token=s3cret{end}" for end in "ab"] * 2
    new = [intake.parse_item(url) for url in urls]
    keys = [each.key for each in new]
    intake.store_items(new)
    assert keys[:2] == keys[2:] and keys[0] != keys[1]
    assert all(key.startswith("url:https://a.org/x.pdf~") for key in keys)
    assert "s3cret" not in "".join(keys)
    assert Document.objects.get(key=keys[0]).source == urls[0], "it can still be fetched"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "not JSON"),
        ('{"id": 7}', 'no "id", "doi"'),
        ('{"title": "x"}', 'no "id", "doi"'),
        ('{"a":' * (sys.getrecursionlimit() + 10), "not JSON"),
        ("[1, 2]", "cannot be used"),
        ("nonsense", "'nonsense' cannot be used"),
    ],
    ids=["cut off", "a number", "nothing usable", "nested", "an array", "nonsense"],
)
def test_an_invalid_line_is_refused_with_the_reason(line: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        intake.parse_item(line)
    assert not Document.objects.exists()


def test_ocr_of_one_document_is_asked_for_by_a_flag_or_in_its_record(tmp_path: Path) -> None:
    pdf = tmp_path / "scan.pdf"
    pdf.touch()
    call_command("queue", "enqueue", str(pdf), "--force-ocr", stdout=io.StringIO())
    assert Execution.objects.get().payload == {"kind": "file", "force_ocr": True}
    assert intake.parse_item(f'{{"path": "{pdf}", "force_ocr": true}}').payload["force_ocr"] is True
    assert "force_ocr" not in intake.parse_item(f'{{"path": "{pdf}", "force_ocr": false}}').payload
    with pytest.raises(BadInput, match='"force_ocr" must be true or false'):
        intake.parse_item('{"id": "2101.00001", "force_ocr": "yes"}')
    with pytest.raises(CommandError, match="--force-ocr is not for items of flow 'probe'"):
        call_command("queue", "enqueue", "--flow", "probe", "--force-ocr")


SCHEMA = {"type": "object", "properties": {"gates": {"type": "integer"}}}


def test_a_schema_is_given_as_a_file_or_in_the_record_and_stored_once(tmp_path: Path) -> None:
    schema, papers = tmp_path / "s.json", tmp_path / "papers.jsonl"
    schema.write_text(json.dumps(SCHEMA))
    own = json.dumps({"id": "2101.00004", "schema": {**SCHEMA, "required": ["gates"]}})
    papers.write_text(f"2101.00002\n2101.00003\n{own}\n")
    given = ["--schema", str(schema)]
    call_command("queue", "enqueue", "2101.00001", *given, "--dry-run", stdout=io.StringIO())
    assert not ExtractionSchema.objects.exists()
    call_command("queue", "enqueue", "2101.00001", *given, stdout=io.StringIO())
    call_command("queue", "import", str(papers), *given, stdout=io.StringIO())
    remote = intake.parse_remote_item(json.dumps({"id": "2101.00005", "schema": SCHEMA}))
    digests = [each.payload["schema"] for each in Execution.objects.order_by("key")]
    assert digests[:3] == [remote.payload["schema"]] * 3 and digests[3] != digests[0]
    assert {row.digest for row in ExtractionSchema.objects.all()} == set(digests)
    assert ExtractionSchema.objects.get(pk=digests[0]).text == json.dumps(SCHEMA, separators=(",", ":"))


@pytest.mark.parametrize(
    ("content", "arguments", "why"),
    [
        ("{", ["enqueue", "2101.00001"], "not JSON"),
        ('{"type": "string"}', ["enqueue", "2101.00001"], '"properties"'),
        (json.dumps(SCHEMA), ["enqueue", "--flow", "probe"], "--schema is not for items of flow 'probe'"),
        (None, ["enqueue", "2101.00001"], "cannot be read"),
        ("a" * (1 << 21), ["enqueue", "2101.00001"], "more than"),
    ],
)
def test_a_schema_that_cannot_be_used_enqueues_nothing(
    content: str | None, arguments: list[str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("papers.txt").write_text("2101.00001")
    if content is not None:
        Path("s.json").write_text(content)
    with pytest.raises(CommandError, match=why):
        call_command("queue", *arguments, "--schema", "s.json", stdout=io.StringIO())
    assert not Execution.objects.exists() and not ExtractionSchema.objects.exists()
