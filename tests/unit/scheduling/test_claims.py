"""Claims: which limits a start must pass, and how keys and resources are kept as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuemgr.base.errors import ConfigurationError, RuleFailed
from queuemgr.scheduling import claims


def test_a_start_passes_the_fleet_its_phase_its_keys_and_its_resources_in_this_order() -> None:
    assert claims.claims_of("prep", "host:a tenant:x", "cpu=2 memory=1", 3) == (
        ("fleet", 3), ("phase:prep", 3), ("host:a", 3), ("tenant:x", 3), ("cpu", 2), ("memory", 1),
    )  # fmt: skip
    assert claims.claims_of("wrap", "", "", 1) == (("fleet", 1), ("phase:wrap", 1))
    assert claims.names_of("wrap", "host:a", "io=4") == ("fleet", "phase:wrap", "host:a", "io")
    assert claims.route_keys("host:a tenant:x", "cpu=2") == ("host:a", "tenant:x", "cpu")


def test_keys_are_stored_once_each_in_order_without_empty_ones() -> None:
    assert claims.as_text("") == ""
    assert claims.as_text("host:a") == "host:a"
    assert claims.as_text(("b", "", "a", "b")) == "b a"


@pytest.mark.parametrize("key", ["host a", " host:a", "host:a\n", "a\tb", " "])
def test_a_key_with_white_space_is_refused(key: str) -> None:
    with pytest.raises(ConfigurationError, match="has white space in it"):
        claims.as_text(("fine", key))


words = st.text(st.characters(codec="ascii", categories=("L", "N", "P")), min_size=1, max_size=8)


@given(
    st.lists(words, max_size=60), st.dictionaries(words, st.integers(0, 99), max_size=8), st.integers(1, 9)
)
def test_resources_stored_as_text_are_read_back_unchanged(
    keys: list[str], resources: dict[str, int], weight: int
) -> None:
    _, _, *own = claims.claims_of("prep", claims.as_text(keys), claims.resources_as_text(resources), weight)
    expected = [(key, weight) for key in dict.fromkeys(keys)]
    assert own == expected + [(name, taken) for name, taken in sorted(resources.items()) if taken]


@pytest.mark.parametrize("room", range(12))
def test_the_key_of_a_batch_fits_beside_those_of_its_step_or_is_refused_as_a_rule_that_failed(
    room: int,
) -> None:
    keys = claims.as_text([letter * 150 for letter in "abc"] + ["d" * (claims.MAX_LIMIT_KEYS - 453 - room)])
    kind = claims.RouteKind("prep", 1, False, keys, 0, 1)
    if room >= len(" batch:17"):
        assert kind.also_under("batch:17").limit_keys == f"{keys} batch:17"
    else:
        with pytest.raises(RuleFailed, match="with batch:17, limit keys"):
            kind.also_under("batch:17")


def test_the_tenants_key_is_not_among_the_keys_of_services() -> None:
    assert claims.tenant_of("host:a tenant:x tenant:y") == "tenant:x"
    assert claims.tenant_of("host:a") == ""
    assert claims.service_keys("host:a tenant:x resolver:b") == ("host:a", "resolver:b")
