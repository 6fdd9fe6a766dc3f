"""The ways in which hostile code misbehaves, and how each must end: what the payloads ask for, and what the
checker expects.

Whatever the way, an attempt may also be lost with a worker that a fault took, interrupted by a shutdown, or
cancelled by a person.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

Ends = frozenset[tuple[str, str]]
"""Pairs of how it ended and the kind of error: of attempts (`done`, ``) or of an execution."""


@dataclass(frozen=True, slots=True)
class Expected:
    """How the attempts of a way may end, and its execution. `says` must be in the message of a failure;
    `most` is how many attempts may count as failures; `kills` that it takes its process along, `hangs` that
    it never ends by itself."""

    attempts: Ends
    states: Ends
    says: str = ""
    most: int = 2
    kills: bool = False
    hangs: bool = False


def _failing(kind: str, says: str = "") -> Expected:
    attempts = frozenset({("retried", kind), ("failed", kind)})
    return Expected(attempts, frozenset({("failed", kind)}), says)


DONE = Expected(frozenset({("done", "")}), frozenset({("done", "")}), most=0)
BAD_RULE = Expected(frozenset({("done", "")}), frozenset({("failed", "configuration")}), most=0)
UNEXPECTED = _failing("unexpected")
TIMED_OUT = replace(_failing("timeout", "time limit"), hangs=True)
LOST_THEN_DONE = Expected(DONE.attempts, DONE.states, most=0, kills=True)
POISON = Expected(frozenset({("lost", "poison")}), frozenset({("failed", "poison")}), most=0, kills=True)


def _either(*expected: Expected) -> Expected:
    attempts = frozenset(end for each in expected for end in each.attempts)
    return Expected(attempts, frozenset(end for each in expected for end in each.states))


def _all(ways: Iterable[str], expected: Expected) -> dict[str, Expected]:
    return dict.fromkeys(ways, expected)


WAYS: Mapping[str, Mapping[str, Expected]] = {
    "code that raises": {
        f"raises {name}": _failing("unexpected", says)
        for name, says in {
            "SystemExit": "SystemExit", "KeyboardInterrupt": "KeyboardInterrupt",
            "CancelledError": "CancelledError", "GeneratorExit": "GeneratorExit", "Own": "Own",
            "Unspeakable": "Unspeakable", "Nameless": "", "Huge": "Huge", "Surrogate": "Surrogate",
            "Group": "Group", "Cycle": "Cycle", "RecursionError": "RecursionError",
            "MemoryError": "MemoryError", "StopIteration": "StopIteration", "Unpicklable": "Unpicklable",
            "IntegrityError": "IntegrityError", "NoKind": "NoKind", "ExitsWhenRead": "ExitsWhenRead",
            "Classless": "Classless",
        }.items()
    },
    "code that returns rubbish": {
        **_all(
            (f"returns {name}" for name in (
                "a date in its context", "a set in its context", "bytes in its context", "NaN", "infinity",
                "a circle", "a deep nest", "a huge integer", "text as its context", "text", "a number",
                "True", "an object", "the class Done", "a huge cost", "a negative cost", "text as its cost",
                "an endless snooze", "a snooze of NaN", "a snooze of text", "no reason to skip",
                "bytes as its message", "a list as its kind",
            )),
            UNEXPECTED,
        ),
        "returns an endless wait": _either(_failing("network"), UNEXPECTED),
        "returns a NUL": _either(DONE, UNEXPECTED),
        "returns half a surrogate": _either(DONE, UNEXPECTED),
        "returns a kind too long": _either(UNEXPECTED, _failing("k" * 32)),
    },
    "rules that fail": _all(
        [
            *(f"{rule} {what}" for rule in ("key", "cost", "weight", "resources", "needed") for what in (
                "raises", "raises a BaseException", "exits", "raises what cannot be said",
                "leaves a block", "begins", "turns autocommit off", "is a coroutine")),
            *(f"key {what}" for what in (
                "has a blank", "is too long", "has a NUL", "is bytes", "is a number")),
            *(f"{rule} {what}" for rule in ("cost", "weight") for what in (
                "is text", "is negative", "is huge", "is not a number", "is None")),
            *(f"resources {what}" for what in ("is text", "is a list", "has text")),
        ],
        BAD_RULE,
    ) | _all(
        (f"{rule} {what}" for rule in ("key", "cost", "weight", "resources", "needed") for what in (
            "reads", "changes what it is given", "forks")),
        DONE,
    ) | {"resources has a huge number": _either(DONE, BAD_RULE)},
    "stores that fail": _all(
        (f"stores {name}" for name in (
            "SystemExit", "KeyboardInterrupt", "Own", "Unspeakable", "IntegrityError", "closed connection",
            "broken transaction", "no function", "wrong arguments", "rolled back", "committed",
            "caught an error", "left a block", "a coroutine", "a generator",
        )),
        UNEXPECTED,
    ),
    "stores that leave something behind": _all(
        ("stores forked", "stores raised after its commit", "stores left a block after its commit"), DONE
    ),
    "code that ends its process": {
        "exits at once": LOST_THEN_DONE, "is killed": LOST_THEN_DONE, "aborts": LOST_THEN_DONE,
        "takes memory until killed": LOST_THEN_DONE, "always exits": POISON,
    },
    "code that spoils its connection": {
        **_all(("closes the connection", "leaves a cursor open", "leaves a lock"), DONE),
        **_all(("leaves a transaction open", "leaves a failed transaction"),
               _failing("unexpected", "transaction")),
        "leaves autocommit off": _either(DONE, _failing("unexpected", "transaction")),
    },
    "code that changes its process": _all(
        ("sets the time zone", "sets the locale", "ignores signals", "disables logging", "closes its output",
         "changes its directory", "collects no garbage", "seeds random", "sets a socket timeout",
         "breaks logging", "sets an alarm", "sends itself a signal", "blocks signals"), DONE,
    ),
    "code that forks": _all(("forks and exits", "forks and lingers", "forks and returns",
                             "leaves a thread", "leaves a program"), DONE),
    "code that hangs": _all(("sleeps for ever", "sleeps and ignores errors", "spins"), TIMED_OUT),
}  # fmt: skip

FLAT: Mapping[str, Expected] = {way: expected for ways in WAYS.values() for way, expected in ways.items()}

ATTEMPTS_OF_KINDS = {"unexpected": 2, "timeout": 2, "network": 2}
"""How many attempts these kinds of errors have in a run, so that it need not wait for long."""


def way_of(key: str) -> str:
    """The way of an execution of the hostile flow, by its key: `hostile/raises-Own.17`."""
    return key.removeprefix("hostile/").rpartition(".")[0].replace("-", " ")


def kind_of(way: str) -> str:
    """The kind of misdeed a way belongs to: a key of `WAYS`."""
    return next(kind for kind, ways in WAYS.items() if way in ways)
