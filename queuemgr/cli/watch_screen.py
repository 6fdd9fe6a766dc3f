"""What `queue watch` draws: the dashboard in as many lines as the terminal has, the most important first.

Nothing is wrapped and no empty row is shown; where lines are left out, the last one of the part counts them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.text import Text

from queuemgr.base.safe_text import safe_text
from queuemgr.base.time_text import duration_text
from queuemgr.reporting.dashboard import Dashboard
from queuemgr.reporting.dashboard.limit_bars import LimitBar

STYLES = {"bad": "bold red", "warn": "yellow", "note": "cyan", "plain": ""}
LABEL = 9
"""Columns before each line, for the name of its part."""


@dataclass(frozen=True, slots=True)
class Line:
    text: str
    level: str = "plain"


@dataclass(frozen=True, slots=True)
class Part:
    """Lines in their order; `least` of them are shown before any further ones of other parts."""

    name: str
    lines: Sequence[Line]
    least: int


def drawn(shown: Dashboard, width: int, height: int) -> Text:
    """The dashboard in at most `height` lines of at most `width` columns."""
    texts = fitted(parts(shown), height)
    return Text("\n").join(Text(_cut(text, width), STYLES[level], no_wrap=True) for text, level in texts)


def fitted(every: Sequence[Part], height: int) -> list[tuple[str, str]]:
    """Lines with their labels and levels: of each part the least, then more of the first parts."""
    some = [part for part in every if part.lines]
    room, given = height, dict.fromkeys((part.name for part in some), 0)
    for most in (lambda part: min(part.least, len(part.lines)), lambda part: len(part.lines)):
        for part in some:
            more = min(room, most(part) - given[part.name])
            given[part.name] += more
            room -= more
    found = []
    for part in some:
        shown, left = given[part.name], len(part.lines) - given[part.name]
        for number, line in enumerate(part.lines[:shown]):
            label = f"{part.name if number == 0 else '':<{LABEL if part.name else 0}}"
            more_text = f"  (+{left:,} more)" if left and number == shown - 1 else ""
            found.append((f"{label}{line.text}{more_text}", line.level))
    return found


def parts(shown: Dashboard) -> list[Part]:
    return [
        Part("", [Line(_headline(shown))], 1),
        Part("alarms", [Line(alarm.text, alarm.level) for alarm in shown.alarms], 4),
        Part("waits", [Line(f"{s.waiting:>7,}  {s.text}") for s in shown.wait_reasons.shown], 3),
        Part("fleet", [Line(_fleet(shown))], 1),
        Part("queues", list(_queues(shown)), 3),
        Part("limits", list(_limits(shown)), 3),
        Part("workers", list(_workers(shown)), 2),
        Part("failed", list(_failures(shown)), 2),
    ]


def _headline(shown: Dashboard) -> str:
    hour = shown.hour
    return (
        f"{shown.at:%H:%M:%S} UTC  {shown.running:,} running, {shown.waiting:,} waiting, "
        f"{shown.counted.failed:,} failed; last hour {hour.done:,} done, {hour.failed:,} failed"
    )


def _fleet(shown: Dashboard) -> str:
    workers, cap = shown.workers, shown.fleet.rule.max_running
    budget = shown.budgets.fleet
    of = f" of {budget.budget:,}" if budget else ""
    return (
        f"{workers.busy:,}/{workers.slots:,} slots of {workers.live:,} live workers, "
        f"{f'cap {cap:,}' if cap else 'no cap'}; {shown.budgets.spent:,}{of} requests today"
    )


def _queues(shown: Dashboard) -> Iterator[Line]:
    for cell in shown.cells:
        if cell.waiting or cell.held or cell.paused:
            oldest = f", oldest {duration_text(cell.oldest.total_seconds())}" if cell.oldest else ""
            text = f"{cell.queue:<18} {cell.waiting:>7,} waiting {cell.held:>5,} running{oldest}"
            level = "warn" if cell.paused or cell.is_overdue else "plain"
            yield Line(f"{text}, paused" if cell.paused else text, level)


def _limits(shown: Dashboard) -> Iterator[Line]:
    """Those that stop work, then the busiest."""
    bars = sorted((bar for bar in shown.limits.shown if _matters(bar)), key=lambda bar: not bar.is_stopped)
    for bar in bars:
        most = f"/{bar.rule.max_running:,}" if bar.rule.max_running else ""
        note = next((note.text for note in bar.notes if note.level == "warn"), "")
        waiting = f" {bar.waiting:>6,} wait" if bar.waiting else ""
        text = f"{bar.name:<28} {f'{bar.use.running:,}{most}':>9}{waiting}  {note}"
        yield Line(text.rstrip(), "warn" if bar.is_stopped else "plain")


def _matters(bar: LimitBar) -> bool:
    return bool(bar.is_stopped or bar.use.running or bar.waiting)


def _workers(shown: Dashboard) -> Iterator[Line]:
    levels = {"gone": "bad", "drained": "warn", "draining": "warn"}
    for row in shown.workers.shown:
        state = row.drain or ("" if row.condition == "live" else row.condition)
        text = f"{row.worker.name:<28} {f'{row.busy:,}/{row.worker.slots:,}':>9}  {state}"
        yield Line(text.rstrip(), levels.get(row.condition, "plain"))


def _failures(shown: Dashboard) -> Iterator[Line]:
    for group in shown.failures:
        text = group.sample_message.partition("\n")[0]
        yield Line(f"{group.count:>7,}  {group.kind}: {text}", "plain")


def _cut(text: str, width: int) -> str:
    plain = safe_text(text).replace("\n", " ")
    return plain if len(plain) <= width else f"{plain[: max(0, width - 1)]}…"
