"""The lanes of a worker: how much of each kind of work it does at once, and how much may wait.

The rules only, for steps may not know Django: `process_lanes` has those of this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from queuemgr.base.errors import ConfigurationError
from queuemgr.steptools.machine import Machine

GIB = 1 << 30
IO_MOST = 64
PROC_MOST = 8
IO_THREADS = "min(32, processors + 4), as Python's own pool"
PROCESSORS = "the processors it may use"


@dataclass(frozen=True)
class Lane:
    """Room for one kind of work: `concurrency` at once, `max_pending` taken and not finished.

    Raises `ConfigurationError` for a number below 1.
    """

    name: str
    concurrency: int
    max_pending: int

    def __post_init__(self) -> None:
        for field in ("concurrency", "max_pending"):
            if getattr(self, field) < 1:
                raise ConfigurationError(
                    f"lane {self.name}: {field} is {getattr(self, field)}; it must be at least 1"
                )


@dataclass(frozen=True)
class LaneSetting:
    """One number of a worker, where it came from, and the rule that made it what it is."""

    name: str
    value: int
    source: str
    rule: str


@dataclass(frozen=True)
class Lanes:
    """Everything a worker process does at once, worked out one time.

    `io` waits (threads, connections), `cpu` computes (processes), `embedding` runs models,
    `proc` runs other programs. `figures` is the same as a table.
    """

    io: Lane
    cpu: Lane
    embedding: Lane
    proc: Lane
    file_concurrency: int
    import_concurrency: int
    io_threads: int
    model_threads: int
    figures: tuple[LaneSetting, ...]


def compute_lanes(
    config: Mapping[str, int], source: Callable[[str], str], machine: Machine
) -> Lanes:
    """Every number from the settings by name (`queuemgr.base.config.LaneSettings`; 0 is not set), where each
    came from (`source(setting)`), and the machine. Pure."""
    io_threads = _asked(config, source, "io_threads", min(32, machine.cpus + 4), IO_THREADS)
    threads = _asked(config, source, "threads", machine.cpus, PROCESSORS)
    cap, why = _io_clamp(io_threads.value, machine, bool(config["io_oversubscribe"]))
    waits = [
        _most(_asked(config, source, "io_concurrency", cap, why), cap, why),
        _most(_as_asked(config, source, "file_concurrency", threads), cap, why),
        _most(_as_asked(config, source, "import_concurrency", threads), cap, why),
    ]
    cpu = _asked(config, source, "cpu_concurrency", machine.cpus, PROCESSORS)
    model = _asked(config, source, "model_threads", 1, "")
    embedding = _asked(
        config, source, "embedding_concurrency", max(1, machine.cpus // model.value),
        f"processors / model_threads = {machine.cpus} / {model.value}, at least 1",
    )  # fmt: skip
    proc = _most(
        _asked(config, source, "proc_concurrency", min(4, machine.cpus), "min(4, processors)"),
        PROC_MOST, f"at most {PROC_MOST}",
    )  # fmt: skip
    slots = _asked(config, source, "slots", config["slots"], "")
    return _lanes([slots, threads, io_threads, *waits, cpu, embedding, model, proc])


def _lanes(asked: Sequence[LaneSetting]) -> Lanes:
    """The lanes of these numbers, with what may wait in each."""
    value = {figure.name: figure.value for figure in asked}
    pending = {
        name: _pending(name, least, next(f for f in asked if f.name == f"{name}_concurrency"))
        for name, least in (("io", 8), ("cpu", 16), ("embedding", 16), ("proc", 4))
    }
    made = {
        name: Lane(name, value[f"{name}_concurrency"], figure.value)
        for name, figure in pending.items()
    }
    return Lanes(
        io=made["io"],
        cpu=made["cpu"],
        embedding=made["embedding"],
        proc=made["proc"],
        file_concurrency=value["file_concurrency"],
        import_concurrency=value["import_concurrency"],
        io_threads=value["io_threads"],
        model_threads=value["model_threads"],
        figures=(*asked, *pending.values()),
    )


def _pending(name: str, least: int, concurrency: LaneSetting) -> LaneSetting:
    """How much of a lane may be taken and not finished: four times what runs, and `least`."""
    rule = f"max({least}, 4 x {concurrency.value})"
    return LaneSetting(
        f"{name}_pending", max(least, 4 * concurrency.value), concurrency.source, rule
    )


def _asked(
    config: Mapping[str, int], source: Callable[[str], str], name: str, otherwise: int, rule: str
) -> LaneSetting:
    """A setting's own value; `otherwise`, by `rule`, where it is 0."""
    value = config[name]
    if value:
        return LaneSetting(name, value, source(name), "")
    return LaneSetting(name, otherwise, source(name), rule)


def _as_asked(
    config: Mapping[str, int], source: Callable[[str], str], name: str, other: LaneSetting
) -> LaneSetting:
    """A setting's own value, or another's where it is 0: then that one's source is its source too."""
    if config[name]:
        return _asked(config, source, name, 0, "")
    return replace(other, name=name, rule=other.name)


def _most(figure: LaneSetting, cap: int, why: str) -> LaneSetting:
    """The figure, brought down to `cap` with the reason said."""
    if figure.value <= cap:
        return figure
    return LaneSetting(figure.name, cap, figure.source, f"{figure.value} asked, {why}")


def _io_clamp(io_threads: int, machine: Machine, oversubscribe: bool) -> tuple[int, str]:
    """How much may wait at once, and why: more than this costs memory and waits no faster."""
    if oversubscribe:
        return IO_MOST, f"at most {IO_MOST}"
    memory = _memory_cap(machine.memory_bytes)
    cap = min(IO_MOST, 4 * io_threads, memory)
    gib = machine.memory_bytes / GIB
    return (
        cap,
        f"min({IO_MOST}, 4 x {io_threads} io threads, {memory} for {gib:.1f} GiB)",
    )


def _memory_cap(memory_bytes: int) -> int:
    """16 under 16 GiB, 32 under 32 GiB, 64 above."""
    return 16 if memory_bytes < 16 * GIB else 32 if memory_bytes < 32 * GIB else 64


def as_rows(figures: Iterable[LaneSetting]) -> list[dict[str, Any]]:
    """The table for programs."""
    return [asdict(figure) for figure in figures]


def banner(figures: Iterable[LaneSetting]) -> str:
    """The table as one compact block of lines for a worker's start."""
    rows = [(f.name, str(f.value), f.source, f.rule) for f in figures]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]])
        .rstrip()
        for row in rows
    )  # fmt: skip
