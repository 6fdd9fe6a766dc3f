"""The metrics: name, kind, labels and help. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

from queuemgr.base import histogram

Kind = Literal["gauge", "counter", "histogram"]


class Sample(NamedTuple):
    """One value of a metric; of a histogram, the counts of its buckets (not cumulative), and where
    it is known the sum of what was observed."""

    name: str
    labels: tuple[str, ...]
    value: float | list[int]
    sum: float | None = None


@dataclass(frozen=True, slots=True)
class Metric:
    """A Prometheus metric; a counter's name ends in `_total`, and a histogram has these buckets."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    bounds: tuple[float, ...] = histogram.BOUNDS


def _metric(
    kind: Kind, end: str, name: str, labels: str, text: str, bounds: tuple[float, ...] = histogram.BOUNDS
) -> Metric:
    return Metric(f"sluicegate_{name}{end}", kind, tuple(labels.split()), text, bounds)


_gauge = partial(_metric, "gauge", "")
_counter = partial(_metric, "counter", "_total")
_histogram = partial(_metric, "histogram", "")

DECLARED: tuple[Metric, ...] = (
    _gauge("queue_executions", "queue state", "Executions waiting, leased or running, by queue."),
    _gauge("queue_due", "queue", "Waiting executions whose run_after has passed."),
    _gauge("queue_oldest_wait_seconds", "queue", "Seconds that the oldest due execution has waited."),
    _gauge("queue_paused", "queue", "1 while the queue is paused."),
    _gauge("executions_ended", "state", "Executions that are done, failed, skipped or cancelled."),
    _gauge("starvation_seconds", "", "Seconds of waiting that age work one priority level; 0: never."),
    _gauge("limit_running", "limit", "Weight running under a limit; of a pattern, the sum of its keys."),
    _gauge("limit_running_high", "limit", "Of that, the weight of high-priority work."),
    _gauge("limit_max_running", "limit", "Cap on the weight running at once; no series: no cap."),
    _gauge("limit_reserved_high", "limit", "Part of the cap reserved for high-priority work."),
    _gauge("limit_paused", "limit", "1 while paused; of a pattern, the number of paused keys."),
    _gauge("limit_breaker_open", "limit", "1 while its breaker is open; of a pattern, its open keys."),
    _gauge("limit_breaker_half_open", "limit", "1 while it is half-open; of a pattern, its half-open keys."),
    _gauge("limit_keys_in_use", "limit", "Keys of a pattern under which work runs."),
    _gauge("limit_keys_full", "limit", "Of these, the ones at their cap."),
    _gauge("limit_budget_requests", "limit", "Requests allowed per day; no series: no budget."),
    _gauge("limit_budget_spent_requests", "limit", "Requests spent today, in the limit's time zone."),
    _gauge("limit_budget_reserved_requests", "limit", "Requests of today's budget reserved by running work."),
    _gauge("limit_allowance_amount", "limit allowance", "What may be used in a period, in the meter's unit."),
    _gauge("limit_allowance_used", "limit allowance", "Used of it in this period, or not refilled yet."),
    _gauge("limit_allowance_reserved", "limit allowance", "Reserved beyond that, by work that runs."),
    _gauge("limit_allowance_waiting", "limit allowance", "What waiting work is expected to use of it."),
    _gauge("limit_allowances_ending", "limit", "Allowances used up or nearly so; of a pattern, its keys'."),
    _gauge("limit_provider_left", "limit meter", "Left by its provider's answers, less what runs may use."),
    _gauge("lease_oldest_renewal_seconds", "", "Seconds since the least recent renewal of a running lease."),
    _gauge("lease_seconds", "", "Seconds until an unrenewed lease expires."),
    _gauge("leases_expiring_soon", "", "Running leases that missed renewals and expire soon."),
    _gauge("leases_overdue", "", "Expired leases that are not released yet."),
    _gauge("workers", "state", "Workers with a recent heartbeat, alive or draining."),
    _gauge("worker_slots", "", "Slots of live workers that take work."),
    _gauge("worker_slots_busy", "", "Slots of live workers in which a step runs."),
    _gauge("worker_async_slots", "", "Async slots of live workers that take work."),
    _gauge("worker_async_slots_busy", "", "Async slots of live workers in which a coroutine runs."),
    _gauge("periodic_job_last_run_timestamp_seconds", "periodic_job", "Start of its last run, Unix seconds."),
    _gauge("periodic_job_running_seconds", "periodic_job", "Seconds it has been running; 0: it does not."),
    _gauge("schedule_late_seconds", "", "Seconds that the oldest due time no process has looked at is late."),
    _gauge("schedule_runs_last_hour", "outcome", "What became of due times in the last hour."),
    _gauge("rollup_lag_seconds", "", "Age in seconds of the oldest attempt not rolled up."),
    _gauge("scrape_duration_seconds", "", "Seconds taken to read the metrics of this scrape."),
    _gauge("build_info", "version", "Always 1; labelled with the version of the web process."),
    _counter("starts", "phase priority", "Steps started."),
    _counter("attempts", "phase priority outcome error_kind", "Attempts ended, by outcome."),
    _counter("requests", "phase", "Requests charged by ended attempts."),
    _counter("usage", "phase meter", "Used by ended attempts of each meter, in its unit."),
    _counter("messages_refused", "", "Redelivered messages whose lease had started or was gone."),
    _counter("messages_unreadable", "", "Messages of the broker that no worker could read, dropped."),
    _counter("outcomes_refused", "", "Results refused because the lease was lost; nothing was stored."),
    _counter("leases_expired_unstarted", "", "Leases that expired before a worker started them."),
    _histogram("wait_seconds", "phase priority", "Seconds from due to start."),
    _histogram("run_seconds", "phase", "Seconds from the start to the end of an attempt."),
    _histogram("scheduler_lock_hold_seconds", "", "Seconds that a transaction held the scheduler lock.",
               histogram.SHORT_BOUNDS),
)  # fmt: skip
