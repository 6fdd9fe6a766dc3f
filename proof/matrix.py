"""The matrix of hostile code: how many attempts of each kind of misdeed ran in each pool."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from proof.fleet import POOLS
from proof.records import History
from proof.ways import WAYS, kind_of, way_of

DATABASES = {"postgres": "PostgreSQL", "sqlite": "SQLite"}
POOL_OF = {name: pool for name, pool, _ in POOLS}
COLUMNS = tuple((database, pool) for database in DATABASES for pool in sorted(set(POOL_OF.values())))


def counted(history: History) -> dict[str, dict[str, int]]:
    """Attempts of hostile code, by kind of misdeed and pool."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for attempt in history.attempts:
        if attempt.key.startswith("hostile/"):
            counts[kind_of(way_of(attempt.key))][POOL_OF[attempt.worker.partition("@")[0]]] += 1
    return {kind: dict(counts[kind]) for kind in WAYS if kind in counts}


HEADINGS = ("kind", "ways", *(f"{DATABASES[database]}, {pool}" for database, pool in COLUMNS))


def rows(matrices: Sequence[tuple[str, Mapping[str, Mapping[str, int]]]]) -> Iterator[Sequence[str]]:
    """The rows of the page's table, of the database and the counts of each run."""
    for kind, ways in WAYS.items():
        sums: Counter[tuple[str, str]] = Counter()
        for database, matrix in matrices:
            sums.update({(database, pool): count for pool, count in matrix.get(kind, {}).items()})
        yield kind, str(len(ways)), *(f"{sums[column]:,}" for column in COLUMNS)
