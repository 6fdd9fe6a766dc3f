"""Papers exported by the command, over HTTP and from the admin: the same files."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from bibtexparser.entrypoint import parse_string
from django.contrib.auth.models import Permission, User
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from pipeline import bibliography
from pipeline.bibliography import FORMATS, written
from pipeline.models import FLOW, Document
from queuemgr.models import Execution, State
from queuemgr.operations import api_tokens
from tests.integration.web.api.api_client import ANN

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)
REFERENCES = [
    {"text": "Abel, A. (2001). On gates.", "authors": ["Abel, A."], "title": "On gates", "year": 2001,
     "venue": "J Water", "doi": "10.1000/x", "arxiv_id": "", "confidence": 0.9},
    {"text": "Something that nobody could divide", "confidence": 0.1},
]  # fmt: skip
PAGES = [{"number": 1, "text": "Gates leak."}, {"number": 2, "text": "At night."}]


@pytest.fixture
def papers() -> list[Document]:
    """Two read papers, of which one is done, and one that is not read yet."""
    Execution.objects.create(
        flow=FLOW, key="doi:10.1000/a", state=State.DONE, phase="wrap", step="report", finished_at=NOON
    )
    gates = {"title": "Gates", "authors": ["Ada Abel"], "year": 2020, "venue": "Journal of Gates"}
    stated = [
        {"field": name, "value": value, "source": "crossref", "confidence": 0.96}
        for name, value in gates.items()
    ]
    lines = {"pages_file": PAGES, "references_file": REFERENCES}
    files = {
        name: default_storage.save(
            name, ContentFile("".join(json.dumps(one) + "\n" for one in rows).encode())
        )
        for name, rows in lines.items()
    }
    common: dict[str, Any] = {"kind": "doi", "pages_file": files["pages_file"]}
    return [
        Document.objects.create(
            key="doi:10.1000/a", source="a", metadata=stated, references_file=files["references_file"],
            **gates, **common,
        ),
        Document.objects.create(key="doi:10.1000/b", source="b", title="Locks", **common),
        Document.objects.create(key="file:/c.pdf", kind="file", source="/c.pdf"),
    ]  # fmt: skip


def exported(*args: object) -> str:
    """What the command writes to standard output."""
    written_out = io.StringIO()
    call_command("papers", "export", *map(str, args), stdout=written_out, stderr=io.StringIO())
    return written_out.getvalue()


def titles(bib: str) -> list[str]:
    return [entry["title"] for entry in parse_string(bib).entries if "title" in entry.fields_dict]


@pytest.mark.usefixtures("papers")
def test_a_file_has_the_papers_chosen_and_what_they_cite(tmp_path: Path) -> None:
    path = tmp_path / "papers.bib"
    call_command("papers", "export", "--format", "bibtex", "-o", str(path), stderr=io.StringIO())
    assert titles(path.read_text()) == ["Gates", "Locks"]
    call_command(
        "papers",
        "export",
        "doi:10.1000/a",
        "--format",
        "bibtex",
        "--references",
        "-o",
        str(path),
        stderr=io.StringIO(),
    )
    found = parse_string(path.read_text()).entries
    assert [entry.key for entry in found] == ["abel_gates_2020", "abel_gates_2001", "noauthor"]
    assert found[2]["note"] == REFERENCES[1]["text"] and found[1]["doi"] == "10.1000/x"
    assert titles(exported("--format", "bibtex", "--status", "done")) == ["Gates"]
    assert titles(exported("--format", "bibtex", "--query", "Lock")) == ["Locks"]
    assert not [left for left in tmp_path.iterdir() if left.name.endswith(".part")]


@pytest.mark.usefixtures("papers")
def test_texts_come_with_the_spans_of_their_pages() -> None:
    records = [json.loads(line) for line in exported("--format", "jsonl", "--references").splitlines()]
    assert [record["id"] for record in records] == ["doi:10.1000/a", "doi:10.1000/b"], "one has no text yet"
    first = records[0]
    assert first["text"] == "Gates leak.\nAt night." and first["metadata"]["title"] == "Gates"
    assert first["attributes"]["pdf_page_numbers"] == [[0, 12, 1], [12, 21, 2]]
    assert first["metadata"]["references"] == REFERENCES


def test_without_a_paper_each_format_is_still_a_file() -> None:
    assert json.loads(exported("--format", "csl-json")) == []
    assert [exported("--format", form) for form in ("bibtex", "ris", "jsonl")] == ["", "", ""]


def test_what_cannot_be_written_is_refused_with_the_reason(papers: list[Document], tmp_path: Path) -> None:
    for args, reason in (
        (["no:key"], "there is no paper 'no:key'"),
        (["-o", str(tmp_path / "none" / "a.bib")], "cannot be written: No such file or directory"),
    ):
        with pytest.raises(CommandError, match=reason) as refused:
            exported("--format", "bibtex", *args)
        assert refused.value.returncode == 3


def test_a_few_papers_are_held_at_a_time_however_many_there_are(
    papers: list[Document], monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    monkeypatch.setattr(bibliography, "ROWS_PER_QUERY", 2)
    with django_assert_num_queries(1):
        pieces = written(Document.objects.all(), "ris")
        next(pieces), next(pieces)
    with django_assert_num_queries(2):
        assert len(list(pieces)) == 3


def test_the_documented_export_is_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    key, title = "doi:10.5555/gates.13", "Teaching gates to open slowly"
    Execution.objects.create(
        flow=FLOW, key=key, state=State.DONE, phase="wrap", step="report", finished_at=NOON
    )
    Document.objects.create(
        key=key,
        kind="doi",
        source=key,
        title=title,
        authors=["Ada Lovewater"],
        year=2018,
        venue="Journal of Open Gates",
    )
    page = (Path(__file__).parents[4] / "docs" / "papers.md").read_text().partition("## Exports")[2]
    first, *steps = page.partition("```console\n")[2].partition("```")[0].split("$ manage.py ")
    assert first == "" and len(steps) == 2
    for step in steps:
        command, _, shown = step.partition("\n")
        printed = io.StringIO()
        call_command(*command.split(), stdout=printed, stderr=printed)
        assert printed.getvalue() == shown
    assert titles((tmp_path / "papers.bib").read_text()) == [title]


# Over HTTP


def client_of(*codenames: str) -> Client:
    user = User.objects.create_user("rea" + "".join(codenames), is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    client = Client()
    client.force_login(user)
    return client


def bearer(*scopes: str, codename: str = "view_document") -> dict[str, str]:
    owner = User.objects.create_user("owner-" + "".join(scopes) + codename)
    owner.user_permissions.set(Permission.objects.filter(codename=codename))
    return {
        "Authorization": f"Bearer {api_tokens.make('t-' + owner.username, owner, list(scopes), ANN).secret}"
    }


def body(response: Any) -> str:
    return b"".join(response.streaming_content).decode()


@pytest.mark.usefixtures("papers")
@pytest.mark.parametrize("form", FORMATS)
def test_a_user_and_a_token_are_sent_what_the_command_writes(form: str) -> None:
    wanted = exported("--format", form, "--references")
    address = reverse("export_papers") + f"?format={form}&references=1"
    by_session = client_of("view_document").get(address)
    assert body(by_session) == wanted
    assert by_session["Content-Type"] == FORMATS[form].content_type
    assert by_session["Content-Disposition"] == f'attachment; filename="papers.{FORMATS[form].suffix}"'
    assert body(Client().get(address, headers=bearer("read"))) == wanted
    chosen = Client().get(f"{address}&key=doi:10.1000/b&status=done", headers=bearer("read", "enqueue"))
    assert not titles(body(chosen))


@pytest.mark.usefixtures("papers")
def test_whoever_may_not_view_papers_is_refused() -> None:
    address = reverse("export_papers") + "?format=bibtex"
    assert Client().get(address).status_code == 401
    assert client_of().get(address).status_code == 403
    assert Client().get(address, headers=bearer("enqueue")).json()["scope"] == "read"
    refused = Client().get(address, headers=bearer("read", codename="view_execution"))
    assert (refused.status_code, refused.json()["permission"]) == (403, "pipeline.view_document")
    assert Client().get(address, headers={"Authorization": "Bearer sluice_x"}).status_code == 401
    assert client_of("view_document").post(address).status_code == 405


@pytest.mark.parametrize("query", ["", "?format=x", "?format=bibtex" + "&key=a" * 501])
def test_a_request_without_a_format_or_with_too_many_papers_is_refused(query: str) -> None:
    assert client_of("view_document").get(reverse("export_papers") + query).status_code == 422


def test_the_admin_exports_the_papers_that_are_ticked(papers: list[Document]) -> None:
    address = reverse("admin:pipeline_document_changelist")
    ticked = {"action": "export_bib", "_selected_action": [papers[1].pk]}
    assert titles(body(client_of("view_document").post(address, ticked))) == ["Locks"]


@pytest.mark.usefixtures("papers")
def test_the_collection_links_to_files_of_the_papers_it_shows() -> None:
    client = client_of("view_document")
    page = client.get(reverse("collection") + "?status=done").content.decode()
    (link,) = (part.split('"')[0] for part in page.split('href="')[1:] if "format=bibtex" in part)
    assert titles(body(client.get(link.replace("&amp;", "&")))) == ["Gates"]
