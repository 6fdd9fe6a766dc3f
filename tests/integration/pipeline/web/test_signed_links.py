"""The query of a URL may contain a signature: it is used for fetching, and shown nowhere."""

# ruff: noqa: F401, F811 - fixtures are imported by name and given to tests by name

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from pipeline.models import Document
from pipeline.steps.report.json_report import render_json
from pipeline.steps.report.markdown_report import render_markdown
from pipeline.tasks.report import report_facts
from pipeline.web.report_page import render_html
from tests.integration.pipeline.fetch_fixtures import Fetching, is_fetched
from tests.integration.pipeline.steps.faulty_server import FaultyServer
from tests.integration.pipeline.test_fetch_step import _private_addresses, fetching, fresh, mirror, site
from tests.report_builder import FACTS

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "s3cret-marker"


@pytest.fixture
def document(fetching: Fetching, site: FaultyServer, mirror: FaultyServer) -> Document:
    """Fetched from the second of three signed links."""
    refused = site.url(f"/status?code=403&token={SECRET}")
    spare = mirror.url(f"/spare?token={SECRET}")
    made = fetching.put(refused, mirror.url(f"/pdf?token={SECRET}"), spare)
    assert is_fetched(made)
    document = fresh(made)
    document.analysis = FACTS.analysis.model_dump()
    document.save()
    return document


def make_old(document: Document) -> None:
    """Like rows of earlier versions: with whole URLs in the log."""
    for line in document.lookups:
        line["url"] = f"{line['url']}?token={SECRET}"
    document.save()


def test_neither_the_key_nor_the_record_of_a_document_contains_the_signature(document: Document) -> None:
    assert SECRET not in document.key + document.file_stem + json.dumps(document.lookups)
    assert [line["url"].rpartition("/")[2] for line in document.lookups] == ["status", "pdf"]
    assert SECRET in document.pdf_url, "it is kept to fetch with"


@pytest.mark.parametrize("render", [render_markdown, render_json, render_html])
@pytest.mark.parametrize("old", [False, True])
def test_no_format_of_a_report_contains_the_signature(render: Any, old: bool, document: Document) -> None:
    if old:
        make_old(document)
    facts = report_facts(document)
    text = render(facts)
    assert "/status" in text
    assert SECRET not in text
    results = " ".join(lookup.result for lookup in facts.lookups)
    assert "round:" not in results and "failed:" not in results, "what only steps need"


def test_a_report_of_an_unresolved_url_does_not_contain_the_signature(document: Document) -> None:
    document.pdf_url = ""
    assert SECRET not in render_json(report_facts(document))


def test_an_export_does_not_contain_the_signature(document: Document) -> None:
    out = io.StringIO()
    call_command("queue", "export", "--jsonl", stdout=out)
    (line,) = out.getvalue().splitlines()
    assert json.loads(line)["item"]["source"].endswith("/status")
    assert SECRET not in line


@pytest.mark.parametrize("old", [False, True])
def test_the_admin_does_not_show_the_signature(
    old: bool, document: Document, client: Client, settings: Any
) -> None:
    if old:
        make_old(document)
    Path(settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)
    client.force_login(User.objects.create_superuser("ann"))
    for page in (
        reverse("admin:pipeline_document_changelist"),
        reverse("admin:pipeline_document_change", args=[document.pk]),
    ):
        html = client.get(page).content.decode()
        assert document.key in html
        assert SECRET not in html
    assert "/spare" in html, "what is still to be tried is listed"
    assert SECRET in fresh(document).pdf_url, "and nothing was changed"
