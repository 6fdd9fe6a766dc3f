"""The table over the papers: columns, order and filters by choice, and the same as CSV and XLSX."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

import pytest
from django.contrib.auth.models import User
from django.test import Client

from pipeline.intake import store_schemas
from pipeline.models import Document
from pipeline.steps.analyse.custom_schema import read_schema
from pipeline.web import table_query

pytestmark = pytest.mark.django_db

TRIALS = read_schema({
    "title": "Trials", "type": "object",
    "properties": {"gates": {"type": "integer"}, "country of \"it\"": {"type": "string"}, "a__b": {}},
})  # fmt: skip
HOSTILE = '=HYPERLINK("http://evil.test")<script>alert(1)</script>\u202e'


def known(key: str, gates: int | None = None, **columns: Any) -> None:
    claims = [{"text": f"Done in {key}.", "quote": "q", "verdict": "not found"}]
    analysis: dict[str, Any] = {"summary": "S", "methods": claims}
    if gates is not None:
        analysis["extracted"] = {"gates": gates, 'country of "it"': "Chad", "a__b": ["x", "y"]}
        columns["extraction_schema_id"] = TRIALS.digest
    Document.objects.create(key=key, kind="doi", source=key, analysis=analysis, **columns)


@pytest.fixture
def papers() -> None:
    store_schemas([TRIALS])
    known(
        "a", 9, title="Arches", year=2001, authors=["Ada Brook", "Émile"], micro_usd=9_000, priced_requests=1
    )
    known("b", 30, title="Beams", year=1999, micro_usd=1_530_000, priced_requests=2)
    known("c", title=HOSTILE, year=2010)
    known("d", 2, title="Dams")


def cells(client: Client, **parameters: Any) -> list[list[str]]:
    """The rows of the CSV file, without its headings."""
    response = client.get(f"/papers/table.csv?{urlencode(parameters, doseq=True)}")
    assert response.status_code == 200
    text = b"".join(response.streaming_content).decode("utf-8-sig")  # type: ignore[attr-defined]  # it streams
    return list(csv.reader(io.StringIO(text)))[1:]


def keys(client: Client, **parameters: Any) -> str:
    return "".join(row[0] for row in cells(client, column="key", **parameters))


def test_who_may_not_view_documents_sees_no_table() -> None:
    client = Client()
    assert client.get("/papers/table").status_code == 302
    assert client.get("/papers/table.csv").status_code == 401
    client.force_login(User.objects.create_user("nobody", is_staff=True))
    assert {client.get(f"/papers/table{end}").status_code for end in ("", ".csv", ".xlsx")} == {403}


def test_a_file_of_another_kind_is_not_found(reader: Client) -> None:
    assert reader.get("/papers/table.ods").status_code == 404


@pytest.mark.usefixtures("papers")
def test_columns_are_shown_in_the_order_in_which_they_are_chosen(reader: Client) -> None:
    chosen = ["year", "key", "authors", "methods", "unverified", "nonsense", "field:gates", "cost"]
    (row,) = cells(reader, column=chosen, q="a")
    assert row == ["2001", "a", "Ada Brook, Émile", "Done in a. [unverified]", "1", "0.009"], (
        "no schema is chosen"
    )
    fields = ["field:gates", 'field:country of "it"', "field:a__b"]
    (row,) = cells(reader, column=fields, schema=TRIALS.digest, q="a")
    assert row == ["9", "Chad", "x, y"]


ORDERS = {
    "": "dcba", "title": "cabd", "-title": "dbac", "year": "bacd", "-year": "cabd", "nonsense": "dcba",
    "cost": "abdc", "-cost": "badc", "authors": "dcba", "methods": "dcba", "year; drop": "dcba",
}  # fmt: skip


@pytest.mark.usefixtures("papers")
@pytest.mark.parametrize("sort", ORDERS)
def test_papers_are_sorted_by_a_column_and_missing_values_come_last(reader: Client, sort: str) -> None:
    expected = ORDERS[sort]
    assert keys(reader, sort=sort) == expected


@pytest.mark.usefixtures("papers")
def test_papers_are_sorted_by_fields_of_the_schema_as_numbers(reader: Client) -> None:
    chosen = {"schema": TRIALS.digest}
    assert keys(reader, sort="field:gates", **chosen) == "dab"
    assert keys(reader, sort="-field:gates", **chosen) == "bad"
    assert keys(reader, sort='field:country of "it"', **chosen) == "dba", "not sorted by"
    assert sorted(keys(reader, sort="field:a__b", **chosen)) == ["a", "b", "d"]


FILTERS: list[tuple[dict[str, str], str]] = [
    ({"year_from": "2000"}, "ca"),
    ({"year_to": "2001"}, "ba"),
    ({"year_from": "x", "year_to": "99999"}, "dcba"),
    ({"q": "Be"}, "b"),
    ({"has": "ARCH", "in": "title"}, "a"),
    ({"has": "done in b", "in": "methods"}, "b"),
    ({"has": "Émile", "in": "authors"}, "a"),
    ({"has": "a", "in": "nonsense"}, "dcba"),
    ({"has": "\x00", "in": "title"}, "dcba"),
    ({"schema": TRIALS.digest, "has": "30", "in": "field:gates"}, "b"),
    ({"schema": "0" * 64}, "dcba"),
    ({"status": "not enqueued"}, "dcba"),
]


@pytest.mark.usefixtures("papers")
@pytest.mark.parametrize(("parameters", "listed"), FILTERS)
def test_papers_are_filtered(reader: Client, parameters: dict[str, str], listed: str) -> None:
    assert keys(reader, **parameters) == listed
    shown = reader.get(f"/papers/table?{urlencode({'column': 'key', **parameters})}").content.decode()
    assert "".join(re.findall(r'data-label="Key"><div class="long">(\w)<', shown)) == listed


@pytest.mark.usefixtures("papers")
def test_the_page_keeps_what_was_chosen_and_shows_text_as_text(reader: Client) -> None:
    chosen = {"column": ["title", "field:gates"], "schema": TRIALS.digest, "sort": "title", "year_to": "2030"}
    response = reader.get(f"/papers/table?{urlencode(chosen, doseq=True)}")
    shown = response.content.decode()
    assert 'value="title" checked' in shown and 'value="key">' in shown
    assert 'aria-sort="ascending"' in shown and "sort=-title" in shown
    assert f'value="{TRIALS.digest}" selected>Trials' in shown
    link = re.findall(r'href="(/papers/table\.csv[^"]+)"', shown)[0].replace("&amp;", "&")
    assert reader.get(link).status_code == 200 and "column=field%3Agates" in link and "year_to=2030" in link
    everything = reader.get("/papers/table").content.decode()
    assert "<script>alert" not in everything and "\u202e" not in everything
    assert "script-src" not in response["Content-Security-Policy"]
    assert "default-src 'none'" in response["Content-Security-Policy"]


@pytest.mark.usefixtures("papers")
def test_no_text_is_a_formula_in_a_spreadsheet(reader: Client) -> None:
    titles = [row[0] for row in cells(reader, column="title")]
    assert [title[:2] for title in titles if "HYPERLINK" in title] == ["'="]
    book = b"".join(reader.get("/papers/table.xlsx?column=title&column=year&sort=title").streaming_content)  # type: ignore[attr-defined]  # it streams
    with zipfile.ZipFile(io.BytesIO(book)) as parts:
        sheet = ElementTree.fromstring(parts.read("xl/worksheets/sheet1.xml"))
        assert not [name for name in parts.namelist() if "rels" in name and "sheet1" in name], "no links"
    ns = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
    assert sheet.find(f".//{ns}f") is None
    rows = [["".join(cell.itertext()) for cell in row] for row in sheet.iter(f"{ns}row")]
    assert rows[0] == ["Title", "Year"] and [row[1] for row in rows[1:4]] == ["2010", "2001", "1999"]
    assert rows[1][0].startswith("=HYPERLINK") and rows[4] == ["Dams"]


@pytest.mark.usefixtures("papers")
def test_too_many_papers_are_neither_sorted_nor_written_as_a_workbook(
    reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_query, "MAX_SORTED", 3)
    monkeypatch.setattr(table_query, "ROWS_PER_QUERY", 2)
    assert keys(reader, sort="title") == "dcba"
    assert reader.get("/papers/table.xlsx").status_code == 422
    assert "neither sorted nor searched" in reader.get("/papers/table?sort=title").content.decode()
    assert keys(reader, sort="title", year_from="2000") == "ca"
