"""`queue import`: long lists from outside, good lines and bad ones."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.models import Document
from queuemgr.models import Execution
from queuemgr.scheduling import limit_rows
from tests.integration.cli.commands import Result, queue

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _a_fleet_with_limits_that_sends_nothing(sent: list[Any]) -> None:
    limit_rows.sync()


@pytest.fixture
def lines(tmp_path: Path) -> Callable[[bytes], Path]:
    """A file of these lines, as they stand."""

    def write(content: bytes) -> Path:
        (tmp_path / "list").write_bytes(content)
        return tmp_path / "list"

    return write


def test_import_skips_bad_lines_and_reports_each_by_its_number(lines: Callable[[bytes], Path]) -> None:
    queue("enqueue", "10.1000/known")
    result = queue("import", lines(
        b'\xef\xbb\xbf{"doi": "10.1000/known"}\n'
        b"2101.00001\r\n"
        b"\n"
        b"   \t\n"
        b"nonsense\n"
        b'{"doi": "10.1000/cut\n'
        b'{"title": "no name in it"}\n'
        b"./caf\xe9.pdf\n"
        b'{"id": "arXiv:2101.00001"}\n'
        b"10.1000/last"
    ))  # fmt: skip
    assert result.code == 2
    assert result.lines[0] == "2 new, 2 already there, 4 bad"
    assert [line.split(":")[0] for line in result.lines[1:]] == [f"line {n}" for n in (5, 6, 7, 8)]
    assert [why in line for why, line in zip(
        ("'nonsense' cannot be used", "not JSON", 'no "id"', "not UTF-8"), result.lines[1:], strict=True
    )] == [True] * 4  # fmt: skip
    assert Execution.objects.count() == 3


def test_import_of_good_lines_ends_with_0(lines: Callable[[bytes], Path]) -> None:
    result = queue("import", "--priority", "low", lines(b"10.1000/a\n10.1000/b\n"))
    assert result == Result("2 new, 0 already there, 0 bad\n")
    assert set(Execution.objects.values_list("priority", flat=True)) == {2}


def test_import_takes_more_lines_than_fit_in_one_transaction(lines: Callable[[bytes], Path]) -> None:
    content = b"".join(b"bad\n" if n == 1200 else b"10.1000/%d\n" % n for n in range(1301))
    result = queue("import", lines(content))
    assert result.lines[0] == "1300 new, 0 already there, 1 bad"
    assert result.lines[1].startswith("line 1201: ")


def test_import_with_hold_reports_bad_lines_too_and_enqueues_nothing(lines: Callable[[bytes], Path]) -> None:
    result = queue("import", "--hold", lines(b"10.1000/a\nnonsense\n\xff\n10.1000/b\n"))
    assert result.code == 2
    assert result.lines[0] == "2 held, 2 bad"
    assert [line[:6] for line in result.lines[1:]] == ["line 2", "line 3"]
    assert (Document.objects.count(), Execution.objects.count()) == (2, 0)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf"])
def test_importing_an_empty_file_is_no_error(content: bytes, lines: Callable[[bytes], Path]) -> None:
    assert queue("import", lines(content)) == Result("0 new, 0 already there, 0 bad\n")


def test_import_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"10.1000/a\n2101.00001\n")))
    assert queue("import", "-").out == "2 new, 0 already there, 0 bad\n"


def test_import_of_a_file_that_cannot_be_read_says_which_and_why(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory")):
        result = queue("import", path)
        assert (result.code, result.out) == (3, "")
        assert f"{path} cannot be read: {why}" in result.error


def test_probes_are_not_imported(lines: Callable[[bytes], Path]) -> None:
    result = queue("import", "--flow", "probe", lines(b"x\n"))
    assert (result.code, result.error) == (3, "flow 'probe' takes no items from a file")
