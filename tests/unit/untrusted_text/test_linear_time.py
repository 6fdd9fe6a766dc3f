"""Text from outside costs time in proportion to its length, whatever it is made of."""

from __future__ import annotations

import gc
import importlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatch
from itertools import islice
from typing import Any
from zlib import crc32

import pytest

from pipeline.steps.identify import MAX_LENGTH, identify
from queuemgr.base import redaction
from tests.unit.untrusted_text.calls import CALLS, all_functions, calls_of, functions_to_test, reason_left_out
from tests.unit.untrusted_text.functions import ROOT, Function, functions_in
from tests.unit.untrusted_text.hostile_texts import HOSTILE, ZONES
from tests.unit.untrusted_text.left_out import LEFT_OUT, REFUSED_AT_ONCE
from tests.unit.untrusted_text.other_modules import OTHER_MODULES
from tests.unit.untrusted_text.paper_calls import ITEMS
from tests.unit.untrusted_text.regex_texts import texts_of
from tests.unit.untrusted_text.shapes import exhausted, is_never_right

FUNCTIONS = functions_to_test()


@pytest.fixture(autouse=True)
def no_secret_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each text that is registered as a secret is looked for in all texts after it."""
    monkeypatch.setattr(redaction, "_secrets", set())


IDENTIFY = next(each for each in FUNCTIONS if each.id == "pipeline.steps.identify:identify")

SHORT, SHORT_SECONDS, ONE_IN = 8_000, 0.2, 10
"""For the usual run: who takes the square of so many characters takes longer, all others milliseconds."""

MIDDLE, MIDDLE_SECONDS, SLOWEST = 20_000, 0.4, 25
"""All texts are tried at this length, and so many, the slowest, at a million characters and at two, as is
what has zones only then."""

SECONDS_PER_MILLION, DOUBLED = 1.0, 2.5

MILLIONS = (1, 1, 2, 2)
"""Of characters, of which twice as many are tried: again, and more, where they take too long. A machine that
is busy during one of the two shows once; the square of a length shows at each."""

LEAST_SECONDS = 0.25
"""Shorter times are noise: twice the text may take as long as this, whatever the text itself took."""

SECONDS_TO_IDENTIFY = 0.015
"""Of an item as long as one may be: 2 to 8 ms are measured, and 17 to 69 where the time is quadratic."""


def test_every_function_that_takes_text_from_outside_is_tested_or_named_with_the_reason() -> None:
    for function in all_functions():
        if not reason_left_out(function):
            calls_of(function)  # raises LookupError, which names it


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.id)
def test_a_short_hostile_text_is_read_at_once(function: Function) -> None:
    for name, made in islice(texts_for(function), crc32(function.id.encode()) % ONE_IN, None, ONE_IN):
        text = made(SHORT)
        for call in calls_of(function):
            took = min_seconds(call, text, SHORT_SECONDS)
            assert took <= SHORT_SECONDS, f"{function.id} took {took:.2f} s for {len(text)} of: {name}"


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.id)
def test_some_hostile_text_is_not_refused_for_its_beginning_or_length(function: Function) -> None:
    refusals = [refusal for pattern, refusal in REFUSED_AT_ONCE.items() if fnmatch(function.id, pattern)]
    for call in calls_of(function):
        assert refusals or any(is_read(call, made(SHORT)) for _, made in texts_for(function)), (
            f"{function.id} refuses every text: shape them, or name it"
        )


def is_read(call: Callable[[str], Any], text: str) -> bool:
    try:
        exhausted(call(text))
    except Exception as error:
        if is_never_right(error):
            raise
        return False
    return True


def test_an_item_as_long_as_may_be_is_identified_at_once() -> None:
    for beginning in ITEMS:
        for name, made in texts_for(IDENTIFY):
            item = (beginning + made(MAX_LENGTH))[:MAX_LENGTH]
            took = min_seconds(identify, item, SECONDS_TO_IDENTIFY)
            assert took <= SECONDS_TO_IDENTIFY, f"{took * 1000:.1f} ms for {beginning} and {name}"


@pytest.mark.parametrize("patterns", [LEFT_OUT, CALLS, REFUSED_AT_ONCE])
def test_every_pattern_names_a_function(patterns: Mapping[str, object]) -> None:
    names = [function.id for function in all_functions()]
    assert [each for each in patterns if not any(fnmatch(name, each) for name in names)] == []


def test_every_module_named_takes_text() -> None:
    named = [ROOT / f"{name}.py" for names in OTHER_MODULES.values() for name in names.split()]
    assert [path for path in named if not path.exists() or not any(functions_in(path))] == []
    assert len(named) == len(set(named))


@pytest.mark.slow_proof
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.id)
def test_two_million_hostile_characters_take_twice_as_long_as_one(function: Function) -> None:
    for name, call, made in slowest(function):
        pairs = list[tuple[float, float]]()
        while not pairs or pairs[-1][1] > max(DOUBLED * pairs[-1][0], LEAST_SECONDS):
            assert len(pairs) < len(MILLIONS), f"{function.id}: {pairs} s of: {name}"
            one, two = MILLIONS[len(pairs)], 2 * MILLIONS[len(pairs)]
            first = seconds_for(function, call, made(one * 1_000_000), one)
            enough = max(DOUBLED * first, LEAST_SECONDS)
            pairs.append((first, seconds_for(function, call, made(two * 1_000_000), two, enough)))


def seconds_for(
    function: Function, call: Callable[[str], Any], text: str, millions: int, enough: float | None = None
) -> float:
    """Seconds for a text of so many million characters; of the fastest of three, unless the first is fast
    enough: the first that needs so much memory waits for it."""
    allowed = millions * SECONDS_PER_MILLION
    found = min_seconds(call, text, allowed if enough is None else min(enough, allowed))
    assert found <= allowed, f"{function.id} took {found:.1f} s for {millions} million characters"
    return found


def slowest(function: Function) -> list[tuple[str, Callable[[str], Any], Callable[[int], str]]]:
    """The texts that took longest, at a length at which a function that takes the square of it fails."""
    found = []
    for name, made in texts_for(function):
        text = made(MIDDLE)
        for call in calls_of(function):
            took = min_seconds(call, text, MIDDLE_SECONDS)
            assert took <= MIDDLE_SECONDS, f"{function.id}: {took:.2f} s of: {name}"
            found.append((took, name, call, made))
    found.sort(key=lambda each: each[0], reverse=True)
    chosen = [*found[:SLOWEST], *(each for each in found[SLOWEST:] if each[1] in ZONES)]
    return [(name, call, made) for _, name, call, made in chosen]


def min_seconds(call: Callable[[str], Any], text: str, enough: float) -> float:
    """Processor seconds of a call; of the fastest of three, where the first ones are not fast enough."""
    best = seconds(call, text)
    for _ in range(2):
        if best > enough:
            best = min(best, seconds(call, text))
    return best


def seconds(call: Callable[[str], Any], text: str) -> float:
    """Without garbage collections: what they cost depends on all that the test process holds. What is left of
    a text is collected afterwards, since a refusal may hold all of it."""
    gc.disable()
    try:
        began = time.process_time()
        is_read(call, text)
        return time.process_time() - began
    finally:
        gc.enable()
        if len(text) >= 1_000_000:
            gc.collect()


def texts_for(function: Function) -> Iterator[tuple[str, Callable[[int], str]]]:
    """The hostile kinds, and what the patterns of its module match, nearly match, and repeat."""
    yield from HOSTILE.items()
    for name, pattern in patterns_of(function.module):
        for number, made in enumerate(texts_of(pattern)):
            yield f"{name}, text {number}", made


def patterns_of(module: str) -> list[tuple[str, re.Pattern[Any]]]:
    """The compiled patterns of a module, also those in its tuples and mappings."""
    return [
        (f"{name}.{number}", pattern)
        for name, value in vars(importlib.import_module(module)).items()
        for number, pattern in enumerate(patterns_in(value))
    ]


def patterns_in(value: object) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, Mapping):
        yield from patterns_in(tuple(value.values()))
    elif isinstance(value, tuple):
        for each in value:
            yield from patterns_in(each)
