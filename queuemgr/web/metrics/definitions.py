"""Every metric there is: its name, what kind it is, its labels and what it means. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

Kind = Literal["gauge", "counter", "histogram"]


class Sample(NamedTuple):
    """One value of a metric; for a histogram the counts of its buckets."""

    name: str
    labels: tuple[str, ...]
    value: float | list[int]


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric as Prometheus knows it. The name of a counter ends in `_total`."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str


def _gauge(name: str, labels: str, text: str) -> Metric:
    return Metric(f"sluicegate_{name}", "gauge", tuple(labels.split()), text)


def _counter(name: str, labels: str, text: str) -> Metric:
    return Metric(f"sluicegate_{name}_total", "counter", tuple(labels.split()), text)


def _histogram(name: str, labels: str, text: str) -> Metric:
    return Metric(f"sluicegate_{name}", "histogram", tuple(labels.split()), text)


DECLARED: tuple[Metric, ...] = (
    _gauge("queue_executions", "queue state", "Executions waiting, leased or running, by queue."),
    _gauge("queue_due", "queue", "Of those waiting, the ones that may start now by their time."),
    _gauge("queue_oldest_wait_seconds", "queue", "Seconds the oldest that is due has waited."),
    _gauge("queue_paused", "queue", "1 while a person has paused the queue."),
    _gauge("executions_ended", "state", "Executions that are done, failed, skipped or cancelled."),
    _gauge("starvation_seconds", "", "Seconds of waiting that age work one priority level; 0: never."),
    _gauge("limit_running", "limit", "Weight that runs under a limit; of a pattern, all its keys'."),
    _gauge("limit_running_high", "limit", "Of that, the weight of high-priority work."),
    _gauge("limit_max_running", "limit", "Weight that may run at once; no series: no cap."),
    _gauge("limit_reserved_high", "limit", "Of the cap, what only high-priority work may take."),
    _gauge("limit_paused", "limit", "1 while paused by a person; of a pattern, its paused keys."),
    _gauge("limit_breaker_open", "limit", "1 while its breaker is open; of a pattern, its open keys."),
    _gauge("limit_breaker_half_open", "limit", "1 while it is half-open; of a pattern, its half-open keys."),
    _gauge("limit_keys_in_use", "limit", "Keys of a pattern under which work runs."),
    _gauge("limit_keys_full", "limit", "Of these, the ones at their cap."),
    _gauge("limit_budget_requests", "limit", "Requests the day's budget allows; no series: none."),
    _gauge("limit_budget_spent_requests", "limit", "Requests spent of it, in the day of its zone."),
    _gauge("limit_budget_reserved_requests", "limit", "Requests reserved of it by what runs."),
    _gauge("lease_oldest_renewal_seconds", "", "Seconds since the lease renewed longest ago was."),
    _gauge("lease_seconds", "", "Seconds a lease lasts unrenewed."),
    _gauge("leases_expiring_soon", "", "Running leases that missed renewals, near their end."),
    _gauge("leases_overdue", "", "Leases that ran out and are not released yet."),
    _gauge("workers", "state", "Workers with a sign of life, alive or draining."),
    _gauge("worker_slots", "", "Slots of live workers that take work."),
    _gauge("worker_slots_busy", "", "Of these, the slots in which a step runs."),
    _gauge("periodic_job_last_run_timestamp_seconds", "periodic_job", "When it last started, Unix seconds."),
    _gauge("rollup_lag_seconds", "", "Age in seconds of the oldest attempt not rolled up yet."),
    _gauge("scrape_duration_seconds", "", "Seconds this answer took to read."),
    _gauge("build_info", "version", "Always 1; the version of the web process that answered."),
    _counter("starts", "phase priority", "Steps begun."),
    _counter("attempts", "phase priority outcome error_kind", "Steps ended, by how."),
    _counter("requests", "phase", "Requests charged for steps that ended."),
    _counter("messages_refused", "", "Messages whose lease was begun or gone: delivered again."),
    _counter("endings_refused", "", "Endings of leases no longer held; nothing was stored."),
    _counter("leases_unbegun", "", "Leases that ran out before a worker began them."),
    _histogram("wait_seconds", "phase priority", "Seconds from falling due to the start."),
    _histogram("run_seconds", "phase", "Seconds from the start to the end of a step."),
)  # fmt: skip

BY_NAME = {metric.name: metric for metric in DECLARED}


def as_table(metrics: Iterable[Metric] = DECLARED) -> str:
    """The metrics as the documentation lists them."""
    rows = [
        f"| `{m.name}` | {m.kind} | {', '.join(f'`{label}`' for label in m.labels)} | {m.help} |"
        for m in metrics
    ]
    return "\n".join(["| metric | kind | labels | meaning |", "|---|---|---|---|", *rows])
