"""Reads all samples and converts them to Prometheus metric families."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from itertools import accumulate, chain
from typing import Any

from prometheus_client import Metric as Family
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.utils import floatToGoString

from queuemgr.base import sql, transaction
from queuemgr.base.queue_database import connection
from queuemgr.base.scheduler_lock import database_now
from queuemgr.web.metrics import counters, limits, queues
from queuemgr.web.metrics.definitions import DECLARED, Metric, Sample

STATEMENT_SECONDS = 10
"""Statement timeout of a scrape on PostgreSQL: Prometheus' own default timeout, so that abandoned
scrapes do not pile up in the database."""


class DatabaseCollector:
    """Reads everything at each scrape, in a constant number of statements."""

    def collect(self) -> Iterator[Family]:
        """Every metric that has a value. Raises `django.db.Error` when the database does not answer."""
        began = time.monotonic()
        samples = read()
        took = Sample("sluicegate_scrape_duration_seconds", (), time.monotonic() - began)
        yield from families(chain(samples, [took]))


def read() -> list[Sample]:
    """All samples; on PostgreSQL in one transaction with a statement timeout."""
    if connection.vendor != "postgresql":
        return _read()  # on SQLite a transaction would block writers
    with transaction.atomic():
        sql.value("SELECT set_config('statement_timeout', %s, true)", [f"{STATEMENT_SECONDS}s"])
        return _read()


def _read() -> list[Sample]:
    now = database_now()
    build = Sample("sluicegate_build_info", (_version(),), 1)
    return [build, *queues.samples(now), *limits.samples(now), *counters.samples(now)]


def families(samples: Iterable[Sample]) -> Iterator[Family]:
    """Families in the order of `DECLARED`, without metrics that have no sample."""
    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        by_name.setdefault(sample.name, []).append(sample)
    for metric in DECLARED:
        if metric.name in by_name:
            yield _family(metric, by_name[metric.name])


KINDS: Mapping[str, Any] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}


def _family(metric: Metric, samples: Iterable[Sample]) -> Family:
    family = KINDS[metric.kind](metric.name, metric.help, labels=metric.labels)
    for sample in samples:
        if isinstance(sample.value, list):
            buckets = [*zip(_ends(metric.bounds), accumulate(sample.value), strict=True)]
            family.add_metric(sample.labels, buckets, sum_value=sample.sum)
        else:
            family.add_metric(sample.labels, float(sample.value))
    return family  # type: ignore[no-any-return]  # of one of the kinds


def _ends(bounds: Iterable[float]) -> list[str]:
    return [*(str(floatToGoString(bound)) for bound in bounds), "+Inf"]  # type: ignore[no-untyped-call]  # theirs has no types


def _version() -> str:
    try:
        return version("sluicegate")
    except PackageNotFoundError:
        return "unknown"
