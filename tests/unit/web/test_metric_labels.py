"""Labels of metrics: a bounded set whatever the input, and names as Prometheus has them."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from queuemgr.web.metrics.counters import bounded
from queuemgr.web.metrics.definitions import DECLARED
from queuemgr.web.metrics.limits import LIMITS, label_of, own_labels

ROWS = ["fleet", "phase:prep", "host:*", "tenant:*", "llm:chat", "cpu", "host:a.example:443", "tenant:x"]


def test_named_limits_are_labelled_by_name_and_keys_of_a_pattern_by_the_pattern() -> None:
    """A row made for one host gives it limits, not a label."""
    own = own_labels(ROWS, ["prep"])
    assert own == {"fleet", "phase:prep", "cpu", "llm:chat"}
    assert label_of("llm:chat", own) == "llm:chat"
    assert label_of("host:a.example:443", own) == "host:*"
    assert label_of("host:*", own) == "host:*"
    assert label_of("gone", own) == "other"


@settings(max_examples=30)
@given(st.lists(st.from_regex(r"(host|llm|x):[a-z0-9]{1,8}|[a-z]{1,5}", fullmatch=True), max_size=300))
def test_labels_are_bounded_whatever_limits_exist(rows: list[str]) -> None:
    own = own_labels([*ROWS, *rows], ["prep"])
    assert len({label_of(name, own) for name in [*ROWS, *rows]}) <= LIMITS + 6
    assert {"fleet", "phase:prep"} <= own


def test_undeclared_error_kinds_share_one_label() -> None:
    """A step may raise any kind."""
    assert {bounded(f"kind-{n}", {"network"}) for n in range(1000)} == {"other"}
    assert (bounded("network", {"network"}), bounded("", {"network"})) == ("network", "")


def test_names_follow_the_conventions_of_prometheus() -> None:
    """One prefix, base units in the name, `_total` for counters alone, no colon, a sentence of help."""
    for metric in DECLARED:
        assert re.fullmatch(r"sluicegate_[a-z][a-z0-9_]*", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert not re.search(r"_(ms|minutes|hours|count|bucket|sum)(_|$)", metric.name)
        assert metric.kind != "histogram" or metric.name.endswith("_seconds")
        assert ("second" in metric.help.lower()) == ("seconds" in metric.name), metric.name
        assert metric.help.endswith(".")
        assert all(re.fullmatch(r"[a-z_]+", label) and label != "le" for label in metric.labels)
    assert len({metric.name for metric in DECLARED}) == len(DECLARED)
