"""Every operation called with requests made from the schema, and with ones that break it.

Whatever comes, the answer is one the schema names, problems included, and never our fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import schemathesis
from django.conf import settings as django_settings
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from queuemgr.flows.flow import NewExecution
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.models import Execution, State
from queuemgr.scheduling import limit_rows
from queuemgr.web.api.v1 import api as v1
from tests.integration.web.api.api_client import make_token

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("static_root")]

SCHEMA = schemathesis.openapi.from_dict(v1.get_openapi_schema())
OPERATIONS = {result.ok().label: result.ok() for result in SCHEMA.get_all_operations()}

APPLICATION = cache(get_wsgi_application)
"""Made once, and not before the static files' directory is there."""

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    allow_header_conformance,
]


@pytest.fixture
def kept_open() -> Iterator[None]:
    """The test's transaction outlives requests: as Django's own client, let none close it."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.fixture
def headers(kept_open: None, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A token that may do everything, and a few executions to do it to."""
    limit_rows.sync()
    enqueue_many("probe", [NewExecution(f"p{n}") for n in range(3)])
    assert Execution.objects.filter(state=State.WAITING).count() == 3
    monkeypatch.setattr(django_settings, "ALLOWED_HOSTS", ["*"])
    return {"Authorization": f"Bearer {make_token(rate='')[1]}"}


def fuzz(label: str, mode: GenerationMode, headers: dict[str, str], **how: Any) -> None:
    ids = list(Execution.objects.values_list("pk", flat=True))

    @settings(
        deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=[Phase.generate], **how,
    )  # fmt: skip
    @given(OPERATIONS[label].as_strategy(generation_mode=mode), st.booleans(), st.sampled_from(ids))
    def meet(case: Case, likely: bool, pk: int) -> None:
        if likely and mode is GenerationMode.POSITIVE:
            make_likely(case, pk)
        response = case.call(headers=headers, app=APPLICATION())
        case.validate_response(response, checks=CHECKS)

    meet()


def make_likely(case: Case, pk: int) -> None:
    """Let the request reach the work behind its route: an execution there is, a flow of any key."""
    if "pk" in case.path_parameters:
        case.path_parameters["pk"] = pk
    if isinstance(case.body, dict) and "flow" in case.body:
        case.body["flow"] = "probe"
        case.body.pop("run_after", None)


@pytest.mark.parametrize("label", OPERATIONS)
def test_requests_that_follow_the_schema_get_answers_that_do(label: str, headers: dict[str, str]) -> None:
    fuzz(label, GenerationMode.POSITIVE, headers, max_examples=2, derandomize=True)


@pytest.mark.parametrize("label", OPERATIONS)
def test_requests_that_break_the_schema_get_a_problem_it_names(label: str, headers: dict[str, str]) -> None:
    fuzz(label, GenerationMode.NEGATIVE, headers, max_examples=2, derandomize=True)


@pytest.mark.slow_proof
@pytest.mark.parametrize("mode", GenerationMode)
@pytest.mark.parametrize("label", OPERATIONS)
def test_many_requests_at_random_find_no_answer_outside_the_schema(
    label: str, mode: GenerationMode, headers: dict[str, str]
) -> None:
    fuzz(label, mode, headers, max_examples=150)
