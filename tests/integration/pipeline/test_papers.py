"""The papers flow with every step run for real, by fake workers that may be lost."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from pipeline.models import Document
from queuemgr.base.errors import BadInput
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.flows.outcomes import Interrupted
from queuemgr.lifecycle.enqueue import MAX_KEY
from queuemgr.models import Attempt, Execution, Lease, State
from queuemgr.worker import housekeeping
from tests import pdf_builder
from tests.integration.pipeline.papers_fixtures import STEPS, Papers, Site
from tests.usage_rows import requests_spent

pytestmark = pytest.mark.django_db(transaction=True)

SAMPLES = Path(__file__).resolve().parents[3] / "samples"
PAPER = SAMPLES / "author-year.pdf"
PROSE = (
    "Gates in rivers hold the water back until somebody opens them again.",
    "We measured forty gates over nine years and found that most leak a little.",
    "The leak grows with the age of the seal, and not with the height of the water.",
    "A keeper who renews the seal every third year loses almost nothing.",
)
GOOD = json.dumps(
    {
        "title": "On gates", "summary": "Seals matter more than water.",
        "keywords": ["gates"], "contributions": ["forty gates measured"],
    }
)  # fmt: skip


def paper(folder: Path, *lines: str, name: str = "made.pdf") -> Path:
    return pdf_builder.written(folder, paper_of(*lines), name)


def pages_of(document: Document) -> list[dict[str, Any]]:
    """The records of its pages file."""
    return [json.loads(line) for line in content(document.pages_file).splitlines()]


def content(file: Any) -> bytes:
    """A stored file, whole."""
    return Path(file.path).read_bytes()


def paper_of(*lines: str) -> bytes:
    return pdf_builder.document([pdf_builder.text_content(*(lines or PROSE))])


# From a file to its report


def test_a_paper_on_disk_becomes_a_report(papers: Papers) -> None:
    papers.parse_item(PAPER)
    papers.work()
    document = Document.objects.get()
    assert papers.outcomes() == [(step, "done") for step in STEPS]
    assert (document.pages, document.references, document.problem) == (5, 17, "")
    assert document.pages_by == {"pdfium": 5}
    assert document.characters == sum(len(page["text"]) for page in pages_of(document))
    assert document.title in content(document.report_markdown).decode()
    assert (document.title, document.year) == (
        "Night Openings and Invertebrate Drift in a Gated Lowland Stream", 2023,
    )  # fmt: skip
    assert document.authors == ["Honora Bexley", "Ilmari Sund"] and document.abstract.startswith("Village")
    stated = json.loads(content(document.report_json))["metadata"]
    assert stated["title"]["source"] == "embedded" and stated["abstract"]["source"] == "printed"
    assert json.loads(content(document.report_json))["references"]["count"] == 17
    assert content(document.text).startswith(b"[PAGE 1]\n")
    assert content(document.pdf) == PAPER.read_bytes()
    assert not any((papers.files.parent / "scratch").iterdir())


def test_every_reference_is_kept_with_its_doi(papers: Papers) -> None:
    papers.parse_item(PAPER)
    papers.work()
    document = Document.objects.get()
    kept = [json.loads(line) for line in content(document.references_file).splitlines()]
    assert [entry["number"] for entry in kept] == list(range(1, 18))
    assert kept[0]["text"].startswith("Averill, C. (2004). Mayfly drift")
    assert (kept[0]["doi"], kept[2]["doi"]) == ("10.5555/qse.2004.1803", "")


def test_each_page_records_its_engine_its_length_and_why_the_first_engine_was_not_used(
    papers: Papers, tmp_path: Path
) -> None:
    sideways = pdf_builder.document([pdf_builder.text_content(*PROSE)])
    sideways = sideways.replace(b"/MediaBox", b"/Rotate 90 /MediaBox")
    papers.parse_item(pdf_builder.written(tmp_path, sideways))
    papers.work()
    document = Document.objects.get()
    [page] = pages_of(document)
    assert (page["number"], page["source"], page["characters"]) == (1, "pypdf", len(page["text"]))
    assert page["reason"] == "PDFium: most of its lines are turned"
    assert (document.pages_by, document.problem) == ({"pypdf": 1}, "")


def test_a_partial_reading_says_so(papers: Papers, tmp_path: Path, set_settings: Callable[..., None]) -> None:
    set_settings(extract_pages=2)
    pages = pdf_builder.document([pdf_builder.text_content(*PROSE)] * 3)
    papers.parse_item(pdf_builder.written(tmp_path, pages))
    papers.work()
    assert Document.objects.get().problem == "Only the first 2 of 3 pages were read."


def test_files_that_cannot_be_read_fail_once_each_with_a_kind_of_its_own(
    papers: Papers, tmp_path: Path
) -> None:
    made = {
        "no_pages": pdf_builder.empty_pages(0),
        "damaged": pdf_builder.cut_array(),
        "encrypted": (SAMPLES / "troubled" / "encrypted.pdf").read_bytes(),
    }
    for kind, whole in made.items():
        papers.parse_item(pdf_builder.written(tmp_path, whole, f"{kind}.pdf"))
        papers.work()
    failed = Execution.objects.filter(state=State.FAILED)
    assert sorted(failed.values_list("error_kind", flat=True)) == sorted(made)
    assert Attempt.objects.filter(step="extract").count() == len(made)


@pytest.mark.parametrize("step", STEPS)
def test_work_lost_at_any_step_resumes_there_and_repeats_no_finished_step(
    step: str, papers: Papers, tmp_path: Path
) -> None:
    papers.parse_item(paper(tmp_path))
    papers.begun(step)
    Lease.objects.update(expires_at=database_now() - timedelta(seconds=1))
    housekeeping.tick()
    papers.work()
    assert Counter(papers.outcomes()) == {(step, "lost"): 1, **{(s, "done"): 1 for s in STEPS}}
    assert Execution.objects.get().state == State.DONE


def test_a_paper_already_stored_is_not_fetched_again(papers: Papers, site: Site) -> None:
    site.pages["/a.pdf"] = paper_of()
    papers.parse_item(f"{site.url}/a.pdf")
    papers.work()
    Execution.objects.all().delete()
    papers.parse_item(f"{site.url}/a.pdf")
    papers.work()
    assert site.requested == ["/a.pdf"]
    assert Execution.objects.get().state == State.DONE


def test_the_same_file_by_any_of_its_names_is_one_document(
    papers: Papers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = paper(tmp_path)
    monkeypatch.chdir(tmp_path)
    names = (made, "made.pdf", "./made.pdf", made.as_uri(), f"{tmp_path}/x/../made.pdf")
    taken = papers.parse_item(*names)
    assert (taken.new, taken.already) == (1, 4)
    assert Document.objects.count() == Execution.objects.count() == 1


def test_two_names_of_the_same_bytes_share_one_stored_pdf(papers: Papers, tmp_path: Path) -> None:
    papers.parse_item(paper(tmp_path), paper(tmp_path, name="copy.pdf"))
    papers.work()
    papers.work()
    assert Document.objects.count() == 2
    assert len([name for name in papers.stored() if name.startswith("pdf/")]) == 1


# OCR


def test_a_paper_whose_pages_all_have_text_is_never_sent_to_ocr(papers: Papers, tmp_path: Path) -> None:
    papers.parse_item(paper(tmp_path))
    papers.work()
    assert "ocr" not in dict(papers.outcomes())


def test_a_scan_waits_for_ocr_under_the_limit_of_its_engine(papers: Papers, tmp_path: Path) -> None:
    scan = pdf_builder.scanned([pdf_builder.picture_of_text([["A page of ink"]], 300, 400)])
    papers.parse_item(pdf_builder.written(tmp_path, scan))
    assert papers.begun("ocr").limit_keys == "engine:ocr"
    assert Execution.objects.get().context["pages_without_text"] == [1]


def test_a_blank_page_among_text_is_called_blank_and_spoils_nothing(papers: Papers, tmp_path: Path) -> None:
    pages = pdf_builder.document([pdf_builder.text_content(*PROSE), b""])
    papers.parse_item(pdf_builder.written(tmp_path, pages))
    papers.work()
    document = Document.objects.get()
    assert ("ocr", "done") in papers.outcomes()
    assert (document.pages_by, document.problem) == ({"pdfium": 1, "blank": 1}, "")


# Whoever lost its lease stores nothing


@pytest.mark.parametrize("step", ["fetch", "extract", "report"])
def test_a_step_whose_lease_is_gone_promotes_no_file_and_stores_nothing(
    step: str, papers: Papers, tmp_path: Path
) -> None:
    papers.parse_item(paper(tmp_path))
    grant = papers.begun(step)
    before, row = papers.stored(), Document.objects.values().get()
    Lease.objects.all().delete()
    result = papers.run(grant)
    papers.worker.end(grant, result)
    assert isinstance(result, Interrupted)
    assert papers.stored() == before
    assert Document.objects.values().get() == row
    assert not any((papers.files.parent / "scratch").iterdir())


def test_a_lease_that_ends_while_the_paper_comes_down_promotes_no_file(papers: Papers, site: Site) -> None:
    site.pages["/a.pdf"] = paper_of()
    papers.parse_item(f"{site.url}/a.pdf")
    grant = papers.begun("fetch")
    ours = connections["default"]
    ours.inc_thread_sharing()

    def end_the_lease() -> None:
        connections["default"] = ours
        Lease.objects.all().delete()

    site.on_request = end_the_lease
    result = papers.run(grant)
    ours.dec_thread_sharing()
    papers.worker.end(grant, result)
    assert isinstance(result, Interrupted)
    assert papers.stored() == set()
    assert Document.objects.get().pdf.name == ""


def test_an_aborted_download_leaves_no_file_behind(papers: Papers, site: Site) -> None:
    site.pages["/a.pdf"] = paper_of()
    papers.parse_item(f"{site.url}/a.pdf")
    grant, signal = papers.begun("fetch"), AbortSignal()
    site.on_request = lambda: signal.abort("cancelled")
    assert papers.run(grant, signal) == Interrupted("cancelled")
    assert papers.stored() == set()
    assert not any((papers.files.parent / "scratch").iterdir())


# What papers and models may send us


def test_text_with_nul_and_other_controls_is_stored_on_any_database(papers: Papers, tmp_path: Path) -> None:
    papers.parse_item(paper(tmp_path, *(line.replace("gates", "ga\x00tes\x01") for line in PROSE)))
    papers.work()
    document = Document.objects.get()
    assert Execution.objects.get().state == State.DONE
    assert b"\x00" not in content(document.text)
    assert "\x00" not in json.dumps(document.analysis)
    [page] = pages_of(document)
    assert page["cleaned"] == Execution.objects.get().context["characters_cleaned"] > 0
    assert document.problem == "", "what was removed is a note, nothing is missing"


def test_an_answer_with_nul_and_half_a_surrogate_is_stored_on_any_database(
    papers: Papers, model: Site
) -> None:
    model.answers = [GOOD.replace("On gates", r"On \u0000 \ud83d gates")]
    papers.parse_item(PAPER)
    papers.work()
    assert Execution.objects.get().state == State.DONE
    assert "\x00" not in Document.objects.get().analysis["title"]


@pytest.mark.parametrize(
    "name",
    [
        "10.1000/../../../../etc/passwd",
        "10.1000/../..x",
        "10.1000//abs/olute",
        "10.1000/%2e%2e%2fup",
        "10.1000/a\\..\\..\\b",
        "10.1000/<script>alert(1)</script>",
        "10.1000/CON",
        "10.1000/\N{SLICE OF PIZZA}",
        "10.1000/" + "é" * 200,
        "hep-th/9901001",
    ],
)
def test_no_name_of_a_paper_leads_out_of_the_files_folder(name: str, papers: Papers, site: Site) -> None:
    link = {"URL": f"{site.url}/a.pdf", "content-type": "application/pdf"}
    site.pages["/a.pdf"] = site.pages["/pdf/hep-th/9901001"] = paper_of()
    outside = {path for path in papers.files.parent.rglob("*") if path.is_file()}
    papers.parse_item(name)
    found = json.dumps({"message": {"title": ["../../t"], "link": [link]}}).encode()
    site.pages = _AnyWork(site.pages, found)
    papers.work()
    assert Execution.objects.get().state == State.DONE, Execution.objects.get().error_message
    files = [f.name for f in Document._meta.fields if f.get_internal_type() == "FileField"]
    assert papers.stored() == {name for name in Document.objects.values_list(*files).get() if name}
    everywhere = {path for path in papers.files.parent.rglob("*") if path.is_file()}
    assert all(path.is_relative_to(papers.files) for path in everywhere - outside)
    stem = Document.objects.get().file_stem
    assert not set(stem) & set("/\\.%<>") and len(stem) < 80


class _AnyWork(dict[str, bytes]):
    """Pages, and the same catalogue entry for every DOI."""

    def __init__(self, pages: dict[str, bytes], entry: bytes) -> None:
        super().__init__(pages)
        self._entry = entry

    def get(self, path: str, default: Any = None) -> Any:
        return self._entry if path.startswith("/works/") else super().get(path, default)


def test_names_equal_after_sanitising_keep_separate_files() -> None:
    """Also on file systems where `A` and `a`, or two forms of an accent, are the same."""
    names = ["10.1/a/b", "10.1/x/b", "10.1/a_b", "10.1/a?b", "10.1/A_B", "10.1/\xe9", "10.1/e\u0301"]
    assert len({Document(key=name).file_stem.lower() for name in names}) == len(names)


@pytest.mark.parametrize("name", ["10.1000/a\0b", "10.1000/" + "x" * 5000, "2101.0\x1b0001"])
def test_a_name_that_cannot_be_stored_is_refused_on_enqueue(name: str, papers: Papers) -> None:
    with pytest.raises(BadInput, match="cannot be used"):
        papers.parse_item(name)
    assert not Document.objects.exists()


def test_a_url_of_4000_characters_is_accepted_and_distinguished_from_a_similar_one(
    papers: Papers, site: Site
) -> None:
    paths = [f"/{'long' * 985}{end}.pdf" for end in "ab"]
    site.pages = dict.fromkeys(paths, paper_of())
    assert papers.parse_item(*(site.url + path for path in paths)).new == 2
    papers.work()
    papers.work()
    assert sorted(site.requested) == sorted(paths), "whichever came first"
    assert all(len(key) <= MAX_KEY for key in Execution.objects.values_list("key", flat=True))
    assert set(Execution.objects.values_list("state", flat=True)) == {State.DONE}


# What an analysis costs


def test_without_an_endpoint_the_analysis_is_local_says_so_and_costs_nothing(papers: Papers) -> None:
    papers.parse_item(PAPER)
    papers.work()
    document = Document.objects.get()
    assert (document.method, document.requests) == ("extractive", 0)
    assert b"No language model was used" in content(document.report_markdown)
    assert requests_spent() == 0


@pytest.mark.parametrize(
    ("answers", "requests"), [([GOOD], 1), (["no JSON at all", GOOD], 2)], ids=["at once", "mended"]
)
def test_an_analysis_by_the_model_is_charged_its_actual_number_of_requests(
    answers: list[str | int], requests: int, papers: Papers, model: Site
) -> None:
    """Two are reserved, since the answer may need a retry."""
    model.answers = answers
    papers.parse_item(PAPER)
    grant = papers.begun("analyse")
    assert (grant.limit_keys, Lease.objects.get().cost) == ("llm:chat", 2)
    papers.worker.end(grant, papers.run(grant))
    document = Document.objects.get()
    assert (document.method, document.requests) == ("model:m-1", requests)
    assert document.analysis["title"] == "On gates"
    assert model.requested == ["/v1/chat/completions"] * requests
    assert (requests_spent(), Attempt.objects.get(step="analyse").cost) == (requests, requests)


@pytest.mark.parametrize(
    ("answers", "kind"), [([500], "server_error"), (["no JSON", "still none"], "bad_answer")]
)
def test_a_failed_analysis_is_charged_the_requests_it_sent(
    answers: list[str | int], kind: str, papers: Papers, model: Site
) -> None:
    model.answers = list(answers)
    papers.parse_item(PAPER)
    papers.work()
    attempt = Attempt.objects.get(step="analyse")
    assert (attempt.outcome, attempt.error_kind) == ("retried", kind)
    assert requests_spent() == len(answers)
    assert "sk-for-this-test" not in attempt.error_message
