"""The amounts of attempts as rows of a statement: `uses` (`tokens=812 usd=3100`) and `cost`, read as JSON."""

from __future__ import annotations

from queuemgr.base.queue_database import connection

_PAIRS = """'"' || REPLACE(REPLACE(a.uses, '=', '":'), ' ', ',"')"""

_READABLE = {
    "postgresql": "a.uses ~ '^[a-z][a-z0-9_]*=[0-9]{1,18}( [a-z][a-z0-9_]*=[0-9]{1,18})*$'",
    "sqlite": f"json_valid('{{' || {_PAIRS} || '}}')",
}
"""Whether a text of amounts can be read. What a hand wrote into a row must not keep others from a report."""

_AMOUNTS = f"""
    '{{"":1' || CASE WHEN a.cost > 0 THEN ',"requests":' || a.cost ELSE '' END
               || CASE WHEN a.uses <> '' AND {{readable}} THEN ',' || {_PAIRS} ELSE '' END || '}}'
"""
"""The amounts of an attempt as a JSON object: `{"":1,"requests":1,"tokens":812}`."""

ATTEMPTS = ""
"""Stands among the meters for the attempts themselves: no meter has this name."""

USES_ANY = "(a.cost > 0 OR a.uses <> '')"

SECONDS_ENDED = {
    "postgresql": "CAST(FLOOR(EXTRACT(EPOCH FROM a.ended_at)) AS bigint)",
    "sqlite": "CAST(strftime('%%s', a.ended_at) AS integer)",
}
"""When an attempt ended, in whole seconds since 1970."""

_UNNESTED = {"postgresql": "json_each_text(CAST({amounts} AS json))", "sqlite": "json_each({amounts})"}


_STORED = {"postgresql": "jsonb_each_text({column})", "sqlite": "json_each({column})"}


_SUM = {"postgresql": "SUM({amount})", "sqlite": "TOTAL({amount})"}


def summed(amount: str) -> str:
    """The sum of amounts, which are numeric: a sum of integers fails above 2**63, which a thousand of the
    largest amounts are. That of SQLite is exact up to the largest amount, 2**53."""
    return _SUM[connection.vendor].format(amount=amount)


def each_stored(column: str) -> str:
    """The same of amounts that a column has as JSON."""
    return _STORED[connection.vendor].format(column=column)


def each_amount() -> str:
    """A table with a `key` (a meter) and a `value` for each amount of the attempt `a`, to join in FROM."""
    vendor = connection.vendor
    return _UNNESTED[vendor].format(amounts=_AMOUNTS.replace("{readable}", _READABLE[vendor]))
