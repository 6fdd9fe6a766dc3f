"""What the API's filters tell: nothing that the caller's answers do not show. The list of executions, bulk
actions and the commands have the same filters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import cycle, product
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from queuemgr.base.errors import BadInput
from queuemgr.models import UNBOUNDED as HIDDEN
from queuemgr.models import Batch, Execution
from queuemgr.operations import bulk, roles
from queuemgr.reporting import filtering
from queuemgr.reporting.filtering import FILTERS
from queuemgr.web.api.executions import AttemptOut, ExecutionOut
from queuemgr.web.api.v1 import api as v1
from tests.integration.web.admin import every_model
from tests.integration.web.api.api_client import ROOT as API
from tests.integration.web.api.api_client import Api, api

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("static_root")]

ROOT = Path(__file__).parents[4]

CATASTROPHE = "^(([a-z0-9:/.]+)+)+!"
"""A regular expression that takes for ever on any longer key."""

JOINS = {"id", "execution_id", "route_id", "batch_id", "worker_id", "name", "ended_at"}
"""Numbers, names of limits and workers, and times, by which the tables of a filter are joined."""

SHOWN = {*ExecutionOut.model_fields, *AttemptOut.model_fields} - {*HIDDEN} | JOINS
"""The columns of executions, attempts, routes and leases whose values a viewer gets in answers."""


def viewer() -> Api:
    """A program that may look at everything but payloads."""
    looks = roles.permissions_of(roles.VIEWER).filter(content_type__app_label="queuemgr")
    return api("read", permissions=looks.values_list("codename", flat=True))


def value_for(name: str) -> Any:
    known = FILTERS[name].choices
    sample = next(iter(known()), "x") if known else "x"
    given = {
        "batch": every_model.TEXT,
        "created_before": datetime(2030, 1, 1, tzinfo=UTC),
        "created_after": datetime(2020, 1, 1, tzinfo=UTC),
        "ids": [1, 2],
    }
    return given.get(name, sample)


def columns_compared(statements: list[str]) -> Iterator[str]:
    """The columns that decide which rows these statements find, by name."""
    for statement in statements:
        for condition in re.split(r"\bWHERE\b", statement)[1:]:
            yield from re.findall(r'"\w+"\."(\w+)"', condition)


@pytest.mark.parametrize("is_bounded", [False, True], ids=["bulk", "list"])
def test_a_filter_reads_only_columns_that_every_answer_shows(is_bounded: bool) -> None:
    every_model.make()
    for name in FILTERS:
        with CaptureQueriesContext(connection) as asked:
            list(filtering.executions_matching({name: value_for(name)}, bounded=is_bounded).only("pk"))
        compared = set(columns_compared([one["sql"] for one in asked.captured_queries]))
        assert compared and compared <= SHOWN, (name, compared - SHOWN)


@pytest.mark.parametrize("column", HIDDEN)
def test_the_search_for_compared_columns_finds_a_hidden_one(column: str) -> None:
    with CaptureQueriesContext(connection) as asked:
        list(Execution.objects.filter(**{f"{column}__tenant": "x"}).only("pk"))
    assert column in set(columns_compared([one["sql"] for one in asked.captured_queries])) - SHOWN


def test_what_is_hidden_is_what_the_api_withholds_from_a_viewer() -> None:
    marks = {name: {"mark": f"hidden-{name}"} for name in HIDDEN}
    every_model.make()
    Execution.objects.update(**marks)
    assert "hidden-" not in viewer().get("executions").content.decode()


def test_no_filter_makes_a_regular_expression_or_a_pattern_of_a_text() -> None:
    every_model.make()
    Batch.objects.update(name=CATASTROPHE)
    texts = [name for name in FILTERS if name not in ("created_before", "created_after", "ids")]
    for name, text in product(texts, (CATASTROPHE, "%", "_", "some%", "*")):
        with CaptureQueriesContext(connection) as asked:
            try:
                found = filtering.executions_matching({name: text}).exists()
                bulk.preview(bulk.BulkRequest("cancel", {name: text}))
            except BadInput:
                continue
        assert text == CATASTROPHE or not found, (name, text)
        assert not [one for one in asked.captured_queries if re.search(r"REGEXP|\s~\*?\s", one["sql"])]


def test_no_code_of_ours_hands_a_regular_expression_to_the_database() -> None:
    wrong = re.compile(r"__i?regex\b|\bREGEXP\b|\bi?Regex\(|SIMILAR TO|regexp_", re.IGNORECASE)
    files = [path for app in ("queuemgr", "pipeline", "project") for path in (ROOT / app).rglob("*.py")]
    assert [str(path.relative_to(ROOT)) for path in files if wrong.search(path.read_text())] == []


LOOKUPS = (
    "payload__tenant__startswith", "payload__icontains", "context__contains", "key__regex", "key__iregex",
    "route__limit_keys", "batch__name__gt", "attempts__worker", "digest__startswith", "owner__password__gt",
    "filters", "order_by", "ordering", "sort", "fields", "payload", "__class__", "pk__in",
)  # fmt: skip


def lists() -> list[str]:
    """Every address of the API that answers a GET without a number in it."""
    paths = v1.get_openapi_schema()["paths"]
    listed = (path for path, methods in paths.items() if "get" in methods and "{" not in path)
    return sorted(path.removeprefix(API) for path in listed)


def test_no_other_parameter_changes_what_a_list_of_the_api_answers() -> None:
    every_model.make()
    caller, tried = viewer(), 0
    for number, path in enumerate(lists()):
        plain = caller.get(path)
        if plain.status_code != 200 or not plain["Content-Type"].startswith("application/json"):
            continue
        for lookup in LOOKUPS[number % 3 :: 3]:
            tried += 1
            answer = caller.get(path, **{lookup: "1"})
            same = steady(answer.content) == steady(plain.content)
            assert answer.status_code == 422 or (answer.status_code == 200 and same), (path, lookup)
    assert tried > 2 * len(LOOKUPS)


def steady(body: bytes) -> str:
    """An answer without the times of day and durations that differ from one to the next."""
    return re.sub(r"[0-9]+(\.[0-9]+)?", "0", body.decode())


def test_a_filter_that_a_bulk_action_does_not_know_is_refused_in_every_request() -> None:
    every_model.make()
    caller = api()
    for lookup, path in zip(LOOKUPS, cycle(("bulk-actions/preview", "bulk-actions")), strict=False):
        answer = caller.post(path, {"verb": "cancel", "filters": {lookup: "1"}})
        assert answer.status_code == 422, (path, lookup)
