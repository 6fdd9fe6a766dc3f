"""Which limits a start must pass, and how much of each it takes: a claim is a name and a weight. Pure.

A step works under keys (`host:api.example.org:443`, `tenant:acme`), each taking the step's weight, and may
take resources (`cpu`, `io`, `memory`), each with a weight of its own. Rows store both as text: keys with
a space between, resources as `cpu=2 memory=1`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from queuemgr.base.column_sizes import MAX_LIMIT_KEY
from queuemgr.base.errors import ConfigurationError, RuleFailed
from queuemgr.base.meters import Amounts, amounts_of
from queuemgr.base.safe_text import excerpt, is_storable
from queuemgr.flows.flow import queue_name
from queuemgr.scheduling import capacity

FLEET = "fleet"
TENANT = "tenant:"
BATCH = "batch:"

MAX_LIMIT_KEYS = 600
MAX_RESOURCES = 100
"""Characters that the columns hold: the keys of a step together, its resources together."""

Claim = tuple[str, int]
"""The name of a limit, and the weight taken of it."""


def as_text(keys: str | Iterable[str]) -> str:
    """One key or several as rows store them, without empty ones.

    Raises `ConfigurationError` for a key no row can hold, and for one with white space in it: it would be
    read back as two.
    """
    several = [_plain(key) for key in ([keys] if isinstance(keys, str) else keys)]
    for key in several:
        _check_key(key)
    text = " ".join(dict.fromkeys(key for key in several if key))
    if len(text) > MAX_LIMIT_KEYS:
        raise ConfigurationError(
            f"limit keys {text[:60]!r}… have {len(text)} characters together; {MAX_LIMIT_KEYS} fit"
        )
    return text


def _plain(text: str) -> str:
    """The text itself: an application's class of texts may say that it is another."""
    return str.__str__(text) if isinstance(text, str) else text


def _check_key(key: object) -> None:
    if not isinstance(key, str):
        raise ConfigurationError(f"limit key {excerpt(key)} is no text but of type {type(key).__name__}")
    if (key and len(key.split()) != 1) or key != key.strip():
        raise ConfigurationError(f"limit key {key[:60]!r} has white space in it; use none")
    if len(key) > MAX_LIMIT_KEY:
        raise ConfigurationError(f"limit key {key[:60]!r}… has more than {MAX_LIMIT_KEY} characters")
    if not is_storable(key):
        raise ConfigurationError(f"limit key {key[:60]!r} has a character that no row can hold")


def resources_as_text(resources: Mapping[str, int]) -> str:
    """Resources as rows store them, in the order of their names. Raises `ConfigurationError`."""
    checked = [(_plain(name), _weight(name, weight)) for name, weight in resources.items()]
    text = " ".join(f"{name}={weight}" for name, weight in sorted(checked) if weight)
    if len(text) > MAX_RESOURCES:
        raise ConfigurationError(f"resources {text[:60]!r}… have {len(text)} characters; {MAX_RESOURCES} fit")
    return text


def _weight(name: Any, weight: Any) -> int:
    """How much it takes. Raises `ConfigurationError` for a name or number that cannot be read back."""
    name = _plain(name)
    if not isinstance(name, str) or len(name.split()) != 1 or not is_storable(name):
        raise ConfigurationError(f"{excerpt(name)} is no name of a resource")
    if isinstance(weight, bool) or not isinstance(weight, int) or int.__index__(weight) < 0:
        raise ConfigurationError(
            f"resource {name[:60]!r} has the weight {excerpt(weight)}; write a whole number"
        )
    return int.__index__(weight)


@lru_cache(maxsize=50_000)
def claims_of(phase: str, limit_keys: str, resources: str, weight: int) -> tuple[Claim, ...]:
    """Everything a start takes, widest limit first."""
    names = (FLEET, f"phase:{phase}", *limit_keys.split())
    return (*((name, weight) for name in names), *resources_in(resources))


def resources_in(text: str) -> Iterable[Claim]:
    """Resources as rows store them."""
    for part in text.split():
        name, _, weight = part.rpartition("=")
        yield name, int(weight)


def names_of(phase: str, limit_keys: str, resources: str = "") -> tuple[str, ...]:
    """The names of the limits it passes."""
    return tuple(name for name, _ in claims_of(phase, limit_keys, resources, 1))


def route_keys(limit_keys: str, resources: str) -> tuple[str, ...]:
    """The names without fleet and phase: those a route may be parked on."""
    return (*limit_keys.split(), *(name for name, _ in resources_in(resources)))


def rule_name(limit: str, rows: Collection[str]) -> str | None:
    """The row whose values a limit has: its own, else the longest pattern (`host:*`) that matches."""
    if limit in rows:
        return limit
    patterns = (row for row in rows if row.endswith("*") and limit.startswith(row[:-1]))
    return max(patterns, key=len, default=None)


def rule_resolver(rows: Iterable[str]) -> Callable[[str], str | None]:
    """`rule_name` for many limits and the same rows."""
    own = frozenset(rows)
    patterns = [row for row in own if row.endswith("*")]
    return lambda limit: limit if limit in own else rule_name(limit, patterns)


def tenant_of(limit_keys: str) -> str:
    return next((key for key in limit_keys.split() if key.startswith(TENANT)), "")


def service_keys(limit_keys: str) -> tuple[str, ...]:
    """The keys that stand for an external service: all but the tenant's and the batch's."""
    return tuple(key for key in limit_keys.split() if not key.startswith((TENANT, BATCH)))


def batch_of(limit_keys: str) -> str:
    """The key of the batch whose allowances it runs under, or empty."""
    return next((key for key in limit_keys.split() if key.startswith(BATCH)), "")


@dataclass(frozen=True)
class RouteKind:
    """All that admission knows of waiting work except its age: work of one kind waits on one route."""

    phase: str
    priority: int
    resumed: bool
    limit_keys: str
    cost: int
    weight: int
    resources: str = ""
    retrying: bool = False
    uses: str = ""
    is_async: bool = False

    @property
    def amounts(self) -> Amounts:
        """What it is expected to use, by meter, and reserves."""
        return amounts_of(self.cost, self.uses)

    def also_under(self, key: str) -> RouteKind:
        """The same under one more key, if it is not empty. Raises `RuleFailed` where there is no room."""
        try:
            return replace(self, limit_keys=as_text([*self.limit_keys.split(), key])) if key else self
        except ConfigurationError as error:
            raise RuleFailed(f"with {key}, {error}") from None

    @property
    def queue(self) -> str:
        return queue_name(self.phase, self.priority)

    @property
    def slot(self) -> str:
        """Which slots a start may take, as `Capacity` names them."""
        return capacity.either(self.queue) if self.is_async else self.queue

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The limits it must pass and what it takes of each, widest first."""
        return claims_of(self.phase, self.limit_keys, self.resources, self.weight)

    @property
    def tenant(self) -> str:
        return tenant_of(self.limit_keys)

    @property
    def is_heavy(self) -> bool:
        return any(weight > 1 for _, weight in self.claims)
