"""Requests no client of ours makes: every parameter of every operation, with one hostile value at a time.

Operations and parameters come from the OpenAPI schema, so a new one is asked too.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import pytest
from django.db import transaction
from django.test import Client

from queuemgr.flows.flow import NewExecution
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.models import Execution
from queuemgr.operations import batches
from queuemgr.scheduling import limit_rows
from queuemgr.web.api.json_body import MAX_VALUES
from queuemgr.web.api.v1 import api as v1
from tests.integration.web.api.api_client import ANN, ROOT, make_token

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("static_root")]

HOSTILE = (
    "", "-1", "0", "1.5", "1e309", "nan", "2147483648", "9223372036854775807", "9223372036854775808",
    "9" * 5000, "x", "a\x00b", "\ud800", "٣", "..", "%00", "' OR 1=1 --", "{}", "é" * 300,
    "9999-12-31", "9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00+14:00", "2026-02-30T00:00:00Z",
    "99999-01-01T00:00:00Z", "MTIz", "eyJhIjoxfQ", "AAAA/+==",
)  # fmt: skip
"""Ids, cursors, numbers, dates and text that are none, or no database holds."""


class Parameter(NamedTuple):
    method: str
    path: str
    place: str
    name: str


def _operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in v1.get_openapi_schema()["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def _parameters() -> Iterator[Parameter]:
    for method, path, operation in _operations():
        for given in operation.get("parameters", ()):
            if given["in"] in ("path", "query"):
                yield Parameter(method, path, given["in"], given["name"])


PARAMETERS = sorted(set(_parameters()))


@pytest.fixture
def named() -> dict[str, str]:
    """What the other parameters of a path are, so that it leads somewhere."""
    limit_rows.sync()
    enqueue_many("probe", [NewExecution(f"p{n}") for n in range(2)])
    batches.open_batch("b", "probe", ANN)
    pk = Execution.objects.values_list("pk", flat=True)[0]
    return {"pk": str(pk), "id": str(pk), "key": "p0", "flow": "probe", "name": "b"}


@pytest.fixture
def client(named: dict[str, str]) -> Client:
    return Client(
        raise_request_exception=False, headers={"Authorization": f"Bearer {make_token(rate='')[1]}"}
    )


def _address(parameter: Parameter, value: str, named: dict[str, str]) -> str:
    path = parameter.path
    text = quote(value.encode("utf-8", "surrogatepass"), safe="")
    if parameter.place == "path":
        path = path.replace(f"{{{parameter.name}}}", text)
    for name in named:
        path = path.replace(f"{{{name}}}", named[name])
    query = f"?{urlencode({parameter.name: ''})}{text}" if parameter.place == "query" else ""
    return f"{path}{query}"


SHARES = 3


def _share(share: int) -> Iterator[tuple[Parameter, str]]:
    """Every parameter with some of the values, and every value with some of the parameters."""
    for number, (parameter, value) in enumerate(product(PARAMETERS, HOSTILE)):
        if (number // len(HOSTILE) + number) % SHARES == share:
            yield parameter, value


@pytest.mark.parametrize(
    "share", [0, *(pytest.param(n, marks=pytest.mark.slow_proof) for n in range(1, SHARES))]
)
@pytest.mark.parametrize("method", sorted({parameter.method for parameter in PARAMETERS}))
def test_no_operation_of_the_api_fails_for_a_hostile_value_in_its_address(
    method: str, share: int, client: Client, named: dict[str, str]
) -> None:
    failed = []
    for parameter, value in (each for each in _share(share) if each[0].method == method):
        address = _address(parameter, value, named)
        with transaction.atomic():
            answer = client.generic(method, address, b"{}", "application/json")
            transaction.set_rollback(True)
        if answer.status_code >= 500:
            failed.append(f"{answer.status_code} {method} {address[:120]}")
    assert failed == []


def test_every_kind_of_parameter_is_among_those_asked() -> None:
    assert {parameter.place for parameter in PARAMETERS} == {"path", "query"}
    assert all(parameter.path.startswith(ROOT) for parameter in PARAMETERS)
    assert len(PARAMETERS) > 40


def _bodies(values: int) -> Iterator[tuple[str, bytes]]:
    """JSON of so many values in all, in shapes each of whose values is an error of its own."""
    members = b",".join(b'"%x":1' % number for number in range(values // 2))
    small = b"{" + b",".join(b'"%x":1' % number for number in range(99)) + b"}"
    yield "members", b"{" + members + b"," + members.replace(b'"', b'"_', 1).replace(b',"', b',"_') + b"}"
    yield "members of a member", b'{"payload":{' + members + b'},"filter":{' + members + b"}}"
    yield "items", b'{"items":[' + b",".join([b"1"] * values) + b"]}"
    yield "items with members", b'{"items":[' + b",".join([small] * (values // 100)) + b"]}"
    yield "lists in lists", b"[" + b",".join([b"[[],[]]"] * (values // 3)) + b"]"


def _refusal(client: Client, method: str, path: str, body: bytes) -> tuple[int, str]:
    answer = client.generic(method, path, body, "application/json")
    return answer.status_code, answer.json()["title"]


TOO_LARGE = (413, "The body is too large")


def test_every_operation_refuses_a_body_of_more_values_than_it_could_judge_in_a_moment(
    client: Client, named: dict[str, str]
) -> None:
    body = dict(_bodies(MAX_VALUES + 3_000))["items"]
    with_bodies = [(method, path) for method, path, operation in _operations() if "requestBody" in operation]
    assert len(with_bodies) > 10
    for method, path in with_bodies:
        for name in named:
            path = path.replace(f"{{{name}}}", named[name])
        assert _refusal(client, method, path, body) == TOO_LARGE, f"{method} {path}"


def test_values_are_counted_wherever_they_are(client: Client) -> None:
    for shape, body in _bodies(MAX_VALUES + 3_000):
        assert _refusal(client, "POST", f"{ROOT}executions", body) == TOO_LARGE, shape
    for shape, body in _bodies(900):
        assert _refusal(client, "POST", f"{ROOT}executions", body)[0] == 422, shape
