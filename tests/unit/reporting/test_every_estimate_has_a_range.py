"""Wherever an estimated moment is written, its range is: by the source of all pages, commands and schemas."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from queuemgr.reporting.estimate_ranges import RANGES, Kind, about, with_ranges
from queuemgr.web.api.v1 import api

ROOT = Path(__file__).resolve().parents[3]
ESTIMATES = {"eta", "starts_at", "finishes_at", "ends_at", "done_at", "runs_out_at"}

FACTS = {
    "starts_at": "queuemgr/reporting/burn_down.py queuemgr/scheduling/limit_usage.py",
    "ends_at": "queuemgr/worker/pool_children.py",
}
"""Names that mean something else there."""

AT_THE_EARLIEST = {
    "queuemgr/reporting/allowance_forecast.py:done_text",
    "queuemgr/reporting/queue_position.py:__str__",
}
"""Where a lower bound is written, which has no range."""

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


def written_plainly(source: str) -> Iterator[tuple[str, str]]:
    """Functions that write an estimate as if it was a fact, and its name."""
    if not re.search(r"\b(clock|moment_text)\(", source):
        return  # parsing takes long
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef):
            continue
        for call in ast.walk(function):
            if (
                isinstance(call, ast.Call)
                and getattr(call.func, "id", "") in ("clock", "moment_text")
                and call.args
            ):
                given = call.args[0]
                name = getattr(given, "attr", "")
                if isinstance(given, ast.Subscript) and isinstance(given.slice, ast.Constant):
                    name = str(given.slice.value)
                if name in ESTIMATES:
                    yield function.name, name


def test_code_writes_no_estimate_without_its_range() -> None:
    found = set()
    for path in (*ROOT.glob("queuemgr/**/*.py"), *ROOT.glob("pipeline/**/*.py")):
        place = str(path.relative_to(ROOT))
        found |= {
            f"{place}:{function}"
            for function, name in written_plainly(path.read_text())
            if place not in FACTS.get(name, "")
        }
    assert found <= AT_THE_EARLIEST
    assert set(written_plainly("def f(x):\n    return clock(x['eta']) + moment_text(x.ends_at)")) == {
        ("f", "eta"), ("f", "ends_at"),
    }  # fmt: skip


def test_pages_show_no_estimate_without_its_range() -> None:
    names = "|".join(ESTIMATES)
    plain = re.compile(rf"(?:all begun, at the earliest, )?\{{\{{ [\w.]*\b({names})(?:\|[^}}]*)? \}}\}}")
    for path in (*ROOT.glob("queuemgr/**/*.html"), *ROOT.glob("pipeline/**/*.html")):
        found = [each.group() for each in plain.finditer(path.read_text())]
        assert all(each.startswith("all begun, at the earliest") for each in found), (path, found)


def test_the_api_has_both_percentiles_beside_every_estimate() -> None:
    schemas = api.get_openapi_schema(path_prefix="/api/v1/")["components"]["schemas"]
    with_estimates = 0
    for name, schema in schemas.items():
        for each in ESTIMATES & schema.get("properties", {}).keys():
            with_estimates += 1
            assert {f"{each}_p10", f"{each}_p90"} <= schema["properties"].keys(), (name, each)
    assert with_estimates >= 7


@pytest.mark.parametrize("of", RANGES)
@pytest.mark.parametrize("ahead", [-5, 0, 1, 3600, 86_400, 40_000_000])
def test_the_range_is_around_what_is_shown(of: Kind, ahead: int) -> None:
    at = NOW + timedelta(seconds=ahead)
    found = with_ranges({"eta": at}, NOW, eta=of)
    assert found["eta_p10"] <= found["eta"] <= found["eta_p90"]
    assert re.fullmatch(r"[\d: -]+ UTC \(8 of 10: [\d: -]+( UTC)? to [\d: -]+ UTC\)", about(at, of, NOW))


def test_what_is_not_known_has_no_range() -> None:
    assert with_ranges({"eta": None}, NOW, eta="end") == dict.fromkeys(("eta", "eta_p10", "eta_p90"))
    assert about(None, "end", NOW) == ""


def test_less_is_used_until_a_moment_where_things_take_longer() -> None:
    assert RANGES["budget"].amounts(1_000, 400) == (302, 610)
