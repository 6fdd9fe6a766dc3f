"""What a step is expected to use of meters: as its rule says, or as it used lately.

Estimates are rounded up to a grid (`base.meters.on_grid`), so that work of like sizes waits on one route.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from queuemgr.base import meters, process_state, sql
from queuemgr.base.errors import BadInput, ConfigurationError
from queuemgr.base.safe_text import excerpt
from queuemgr.base.timed_cache import TimedCache
from queuemgr.flows.flow import StepRef

ATTEMPTS_LOOKED_AT = 200
"""The latest attempts of a step whose usage an estimate is made of."""

PERCENTILE = 90


def as_text(ref: StepRef, uses: Any) -> str:
    """The uses of a step as rows store them. Raises `ConfigurationError`."""
    if not isinstance(uses, Mapping):
        raise ConfigurationError(f"{excerpt(uses)} is no mapping from meters to amounts")
    try:
        return meters.as_text(dict(_amount(ref, name, number) for name, number in uses.items()))
    except BadInput as error:
        raise ConfigurationError(str(error)) from None


def _amount(ref: StepRef, name: Any, number: Any) -> tuple[str, int]:
    """By the meter's own name: what an application gives as one may say that it is equal, and not be."""
    meter = meters.meter_named(name)
    if meter.name == meters.REQUESTS:
        raise BadInput("requests are stated as the cost of a step")
    if meter.name == meters.STARTS:
        raise BadInput("starts are not stated: each lease is one")
    return meter.name, meters.on_grid(usual(ref, meter.name) if number is None else meter.amount(number))


def usual(ref: StepRef, meter: str) -> int:
    """The 90th percentile of what this step used of a meter lately; of a new one the meter's initial
    estimate."""
    known = usual_amounts(ref)
    return known.get(meter) or meters.meter_named(meter).initial * meters.meter_named(meter).scale


def usual_amounts(ref: StepRef) -> Mapping[str, int]:
    """The 90th percentile of what this step used lately, by meter, requests apart; nothing of a new one."""
    cache = _usual.setdefault((ref.flow, ref.phase.name, ref.step.name), TimedCache())
    return cache.get_or_compute(datetime.now(UTC), partial(_used_lately, ref))


_usual: dict[tuple[str, str, str], TimedCache[dict[str, int]]] = {}
process_state.register(_usual.clear)

_LATELY = """
    SELECT uses
      FROM (SELECT id, uses, outcome FROM queuemgr_attempt
             WHERE uses > '' AND flow = %s AND phase = %s AND step = %s
             ORDER BY id DESC LIMIT %s) AS latest
     WHERE outcome = 'done' ORDER BY id DESC LIMIT %s
"""
"""Whatever other steps did since; of one that mostly fails, the latest ends are looked at."""


def _used_lately(ref: StepRef) -> dict[str, int]:
    parameters = [ref.flow, ref.phase.name, ref.step.name, 5 * ATTEMPTS_LOOKED_AT, ATTEMPTS_LOOKED_AT]
    used: dict[str, list[int]] = defaultdict(list)
    for text in sql.column(_LATELY, parameters):
        for name, amount in meters.from_text(text).items():
            used[name].append(amount)
    return {name: _percentile(sorted(amounts)) for name, amounts in used.items()}


def _percentile(amounts: list[int]) -> int:
    """The nearest rank: the smallest amount that so many percent of them do not exceed."""
    return amounts[-(-len(amounts) * PERCENTILE // 100) - 1]
