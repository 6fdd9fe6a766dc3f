"""A download that was cut off resumes where it stopped, and never joins bytes of two files."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from pipeline.steps.fetch import resume
from pipeline.steps.fetch.download import PdfRequest, StoredCopy
from pipeline.steps.fetch.fetch import Unchanged, fetch
from pipeline.steps.http.client import HttpClient
from queuemgr.base.errors import StepFailed
from queuemgr.flows.abort_signal import NEVER
from tests.integration.pipeline.steps.downloads import LOCAL, refused
from tests.integration.pipeline.steps.faulty_ranges import CUT, SIZE, numbered
from tests.integration.pipeline.steps.faulty_server import FaultyServer

pytestmark = pytest.mark.usefixtures("loop_stays_quiet")

_ids = count()


def ranged(faulty: FaultyServer, **query: object) -> str:
    parameters = "".join(f"&{name}={value}" for name, value in query.items())
    return faulty.url(f"/ranged?id={next(_ids)}{parameters}")


def whole(url: str, into: Path, http: HttpClient) -> bytes:
    """The bytes of a download that must succeed; it leaves no other file."""
    got = fetch(url, into, LOCAL, http, NEVER)
    content = got.path.read_bytes()
    assert (got.size, got.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert list(into.iterdir()) == [got.path]
    return content


def left(into: Path) -> list[int]:
    """Sizes of the files kept for a later attempt."""
    return [path.stat().st_size for path in into.glob("left-*.part")]


# Within one download


def test_a_cut_download_resumes_where_it_stopped(faulty: FaultyServer, http: HttpClient, into: Path) -> None:
    assert whole(ranged(faulty, cuts=2), into, http) == numbered()
    ranges = [seen.get("range") for seen in faulty.seen]
    assert ranges == [None, f"bytes={CUT}-", f"bytes={2 * CUT}-"]
    assert [seen.get("if-range") for seen in faulty.seen] == [None, '"one"', '"one"']


@pytest.mark.parametrize("then", ["whole", "416", "later", "longer", "other", "bare"])
def test_a_response_that_does_not_continue_our_bytes_starts_the_file_again(
    then: str, faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    """200 instead of 206, 416, another offset, another length, another ETag, no Content-Range."""
    assert whole(ranged(faulty, then=then), into, http) == numbered()


def test_a_file_that_changed_between_is_the_new_one_whole(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    assert whole(ranged(faulty, then="changed"), into, http) == numbered(mark=b"b")


@pytest.mark.parametrize("etag", ["", 'W/"one"', "one"])
def test_without_a_strong_etag_a_cut_download_is_not_joined(
    etag: str, faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    """A weak ETag does not guarantee equal bytes, so nothing is joined."""
    assert refused(ranged(faulty, etag=etag), into, http).kind == "network"
    assert len(faulty.hits) == 1


def test_a_range_that_was_not_requested_is_refused(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    assert refused(faulty.url("/part"), into, http).kind == "bad_answer"


def test_a_range_that_ends_early_is_cut_off(faulty: FaultyServer, http: HttpClient, into: Path) -> None:
    """The range ends normally, but 100 bytes before its declared length."""
    with pytest.raises(StepFailed, match=f"cut off at {SIZE - 100} bytes of {SIZE}"):
        fetch(ranged(faulty, then="short"), into, LOCAL, http, NEVER)


# Across tries


def test_a_later_attempt_resumes_the_partial_file_of_an_earlier_one(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    url = ranged(faulty, then="503")
    with pytest.raises(StepFailed) as failure:
        fetch(url, into, LOCAL, http, NEVER)
    assert (failure.value.kind, failure.value.retry_after) == ("server_error", 7.0)
    assert left(into) == [CUT]
    assert whole(url, into, http) == numbered()
    assert [seen.get("range") for seen in faulty.seen] == [None, *[f"bytes={CUT}-"] * 2]


def test_a_file_no_single_attempt_could_download_is_downloaded_by_several(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    """Five cuts: one attempt resumes three times."""
    url, cut = ranged(faulty, cuts=5, cut=70_000), 70_000
    with pytest.raises(StepFailed, match="cut off"):
        fetch(url, into, LOCAL, http, NEVER)
    assert left(into) == [4 * cut]
    assert whole(url, into, http) == numbered()


def test_two_workers_that_resume_the_same_partial_file_both_get_the_whole_file(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    """One claims the partial file by renaming it; the other starts from the first byte."""
    url = ranged(faulty, then="503")
    with pytest.raises(StepFailed):
        fetch(url, into, LOCAL, http, NEVER)
    with ThreadPoolExecutor(4) as threads:
        got = list(threads.map(lambda _: fetch(url, into, LOCAL, http, NEVER), range(4)))
    assert {one.path.read_bytes() for one in got} == {numbered()}
    assert len({one.path for one in got}) == len(list(into.iterdir())) == 4
    assert [seen.get("range") for seen in faulty.seen].count(f"bytes={CUT}-") == 2


def test_a_partial_file_of_another_address_is_not_touched(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    with pytest.raises(StepFailed):
        fetch(ranged(faulty, then="503"), into, LOCAL, http, NEVER)
    assert fetch(ranged(faulty, cuts=0), into, LOCAL, http, NEVER).size == SIZE
    assert left(into) == [CUT]


def test_a_very_small_partial_file_is_not_kept(faulty: FaultyServer, http: HttpClient, into: Path) -> None:
    refused(ranged(faulty, then="503", cut=resume.LEAST - 1), into, http)


def test_a_partial_file_that_cannot_be_kept_does_not_hide_the_error_of_the_download(
    faulty: FaultyServer, http: HttpClient, into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeping a partial file is optional: if it fails, the error is still the download's own."""

    def fail(*args: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(resume.os, "replace", fail)
    assert refused(ranged(faulty, then="503"), into, http).kind == "server_error"


# Stored copies


@pytest.mark.parametrize(
    "stored",
    [
        StoredCopy('W/"seven"', "Sat, 01 Feb 2025 12:00:00 GMT"),
        StoredCopy("", "Sun, 01 Mar 2026 12:00:00 GMT"),
    ],
    ids=["by its ETag", "by its date"],
)
def test_a_stored_copy_that_has_not_changed_is_not_sent_again(
    stored: StoredCopy, faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    request = PdfRequest(faulty.url("/conditional"), stored=stored)
    assert fetch(request, into, LOCAL, http, NEVER) == Unchanged()
    assert list(into.iterdir()) == []


def test_a_changed_copy_is_downloaded_with_its_new_validators(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    request = PdfRequest(faulty.url("/conditional"), stored=StoredCopy('"six"'))
    got = fetch(request, into, LOCAL, http, NEVER)
    assert (got.etag, got.last_modified) == ('W/"seven"', "Sun, 01 Mar 2026 12:00:00 GMT")


def test_a_304_without_a_stored_copy_is_an_http_error(
    faulty: FaultyServer, http: HttpClient, into: Path
) -> None:
    assert refused(faulty.url("/status?code=304"), into, http).kind == "http_error"
