"""A field of a limit is declared once, as its column: every door, the audit log and the docs have it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client

from docs import limit_fields_table
from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import LIMIT_FIELDS, AuditEntry, Limit
from queuemgr.operations import controls, undo
from queuemgr.operations.audit_log import in_words
from queuemgr.operations.controls import Actor
from queuemgr.reporting.allowances import FIGURES
from queuemgr.scheduling import limit_rows
from queuemgr.scheduling.decision_input import LimitRule
from queuemgr.scheduling.limit_rules import read_rules, rule_from
from queuemgr.web.admin.limits import LimitAdmin, LimitForm
from queuemgr.web.api.limits import AllowanceOut, LimitFields, LimitOut, OneLimit
from tests.compose_file import ROOT
from tests.integration.cli.commands import queue
from tests.integration.web.admin.admin_pages import limit_form, page, text_of
from tests.integration.web.api.api_client import api, problem, someone

pytestmark = pytest.mark.django_db
EACH = pytest.mark.parametrize("name", LIMIT_FIELDS)

OTHERS = {"rate": "5/s", "zone": "Europe/Berlin", "allowances": "5.00 usd/day"}
"""A text by what it is."""


def value_of(name: str) -> Any:
    """One that is not the default."""
    field = LIMIT_FIELDS[name]
    return field.range[0] + 7 if field.is_number else OTHERS.get(field.unit, "some words")


@EACH
def test_the_command_sets_it_and_shows_it_and_the_audit_log_has_it_and_an_undo_restores_it(name: str) -> None:
    limit_rows.sync()
    Limit.objects.create(name="host:a")
    option, value = f"--{name.replace('_', '-')}", value_of(name)
    result = queue("limit", "host:a", option, value, "--reason", "why")
    assert result.out == f"host:a: {name}={value}\n"
    before, after = LIMIT_FIELDS[name].default, getattr(Limit.objects.get(name="host:a"), name)
    assert after == value != before
    (shown,) = queue("limit", "host:a", "--json").records
    assert shown[name] == value or shown[name][0]["allowance"] == value
    change = AuditEntry.objects.get()
    assert (change.before, change.after) == ({name: before}, {name: value})
    assert in_words(change.after) == f"{name} {value}"
    assert undo.permissions(change) == (f"queuemgr.{LIMIT_FIELDS[name].permission}",)
    undo.undo(change, Actor("ann", "test"))
    assert getattr(Limit.objects.get(name="host:a"), name) == before


@EACH
def test_the_form_and_the_api_have_it_with_its_meaning_and_its_range(name: str) -> None:
    field = LIMIT_FIELDS[name]
    assert str(LimitForm.base_fields[name].help_text) == field.meaning
    on_page = list(chain.from_iterable(options["fields"] for _, options in LimitAdmin.fieldsets))
    assert on_page.count(name) == 1
    of_api = LimitFields.model_json_schema()["properties"][name]
    sent = of_api.get("anyOf", [of_api])[0]
    bounds = (sent.get("minimum"), sent.get("maximum")) if field.is_number else sent.get("maxLength")
    assert (of_api["description"], bounds) == (
        field.meaning,
        field.range if field.is_number else field.longest,
    )
    assert name in OneLimit.model_fields
    assert (name in LimitOut.model_fields) == field.is_listed


DECIDES = [name for name, field in LIMIT_FIELDS.items() if field.decides]


@pytest.mark.parametrize("name", DECIDES)
def test_decisions_read_it(name: str) -> None:
    values = {"max_running": 90, "daily_budget": 1_000}
    before = Limit.objects.create(name="host:a", **values)
    after = Limit.objects.create(name="host:b", **{**values, name: value_of(name)})
    now = database_now()
    rules = read_rules(now)
    assert rules["host:a"] == rule_from(now, before) != rule_from(now, after) == rules["host:b"]


def test_a_rule_without_values_is_that_of_a_row_without() -> None:
    assert rule_from(database_now(), Limit()) == LimitRule()


def test_a_limits_page_sets_every_field_and_records_the_reason(operator: Client) -> None:
    limit_rows.sync()
    limit = Limit.objects.get(name="host:*")
    values = {**{name: value_of(name) for name in LIMIT_FIELDS}, "max_running": 90}
    posted = limit_form(limit, **values, reason="new contract")
    text_of(operator.post(page("limit", limit.pk, view="change"), posted, follow=True))
    limit.refresh_from_db()
    assert {name: getattr(limit, name) for name in LIMIT_FIELDS} == values
    change = AuditEntry.objects.get()
    assert (change.reason, change.after) == ("new contract", values)


def test_the_documentation_has_each() -> None:
    for path, made in limit_fields_table.PAGES.items():
        assert made(path.read_text()) == path.read_text(), "run: python docs/make_pages.py"
    concepts = (limit_fields_table.DOCS / "concepts.md").read_text()
    assert [name for name in LIMIT_FIELDS if f"\n| `{name}` |" not in concepts] == []


def test_the_api_and_the_command_have_each_figure_of_an_allowance() -> None:
    limit_rows.sync()
    Limit.objects.create(name="host:a", allowances="5 usd/day")
    (shown,) = queue("limit", "host:a", "--json").records
    (of_command,) = shown["allowances"]
    beside = {"forecast", "text"}
    assert of_command.keys() == AllowanceOut.model_fields.keys() == FIGURES.keys() | beside
    described = AllowanceOut.model_json_schema()["properties"]
    assert [name for name in FIGURES if not described[name]["description"]] == []


def test_each_says_what_it_means_and_what_it_counts() -> None:
    assert [name for name, field in LIMIT_FIELDS.items() if not (field.meaning and field.unit)] == []


@pytest.mark.usefixtures("static_root")
def test_who_may_not_set_one_sees_its_value_in_the_form_and_is_refused_by_the_api(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = Limit.objects.create(name="host:a")
    monkeypatch.setitem(LIMIT_FIELDS, "share", replace(LIMIT_FIELDS["share"], permission="pause_limit"))
    may = ("view_limit", "change_limit")
    refused = api(permissions=may).patch("limits/host:a", {"share": 3, "max_running": 3})
    assert problem(refused, "permission-missing")["permission"] == "queuemgr.pause_limit"
    sam = someone("sam", may)
    sam.is_staff = True
    sam.save()
    client.force_login(sam)
    shown = text_of(client.get(page("limit", limit.pk, view="change")))
    assert 'name="max_running"' in shown and 'name="share"' not in shown and "Share" in shown


SURFACES = ("cli", "operations", "reporting", "web")


def test_no_door_lists_the_fields_once_more() -> None:
    files = chain.from_iterable((ROOT / "queuemgr" / surface).rglob("*.py") for surface in SURFACES)
    assert [found for file in files for found in lists_of_fields(file)] == []


def lists_of_fields(file: Path) -> Iterator[str]:
    """Where a literal, a call or the body of a class names three fields or more."""
    for node in ast.walk(ast.parse(file.read_text())):
        if len(LIMIT_FIELDS.keys() & set(_names_in(node))) >= 3:
            yield f"{file}:{node.lineno}"  # type: ignore[attr-defined]  # these nodes have one


def _names_in(node: ast.AST) -> Iterator[object]:
    match node:
        case ast.Tuple(elts=nodes) | ast.List(elts=nodes) | ast.Set(elts=nodes) | ast.Dict(keys=nodes):
            yield from (each.value for each in nodes if isinstance(each, ast.Constant))
        case ast.Call(keywords=keywords):
            yield from (keyword.arg for keyword in keywords)
        case ast.ClassDef(body=body):
            yield from (
                each.target.id
                for each in body
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
            )


@pytest.mark.parametrize(
    ("name", "value", "allowance"),
    [("daily_budget", 1_000, "9 requests/day"), ("rate", "5/s", "7 starts/second")],
)
def test_what_a_field_says_in_short_is_refused_as_an_allowance_by_every_door(
    name: str, value: object, allowance: str, operator: Client
) -> None:
    limit_rows.sync()
    limit = Limit.objects.create(name="host:a", **{name: value})
    short = f"{value:,}" if isinstance(value, int) else value
    said = f"the {name.replace('_', ' ')} {short} and the allowance {allowance} say the same"
    text = f"5 usd/day; {allowance}"
    refused = queue("limit", "host:a", "--allowances", text)
    assert refused.code and said in refused.error
    sent = api(permissions=("view_limit", "change_limit")).patch("limits/host:a", {"allowances": text})
    assert said in problem(sent, "invalid")["detail"]
    posted = limit_form(limit, allowances=text)
    assert said in text_of(operator.post(page("limit", limit.pk, view="change"), posted))
    with pytest.raises(ValidationError, match=said):
        controls.edit_limit("host:a", Actor("ann", "test"), allowances=text)
    limit.refresh_from_db()
    assert limit.allowances == ""
    controls.edit_limit("host:a", Actor("ann", "test"), allowances=text, **{name: LIMIT_FIELDS[name].default})
    with pytest.raises(ValidationError, match=said):
        controls.edit_limit("host:a", Actor("ann", "test"), **{name: value})


def test_a_row_that_has_both_can_be_edited_elsewhere_and_the_smaller_number_counts() -> None:
    """As one that a release before wrote."""
    limit_rows.sync()
    Limit.objects.filter(name="fleet").update(allowances="9 requests/day", daily_budget=10)
    controls.edit_limit("fleet", Actor("ann", "test"), note="why")
    (budget,) = read_rules(database_now())["fleet"].allowances
    assert budget.amount == 9
