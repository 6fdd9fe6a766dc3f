"""The lanes of a worker: how much of each kind of work runs at once, and how much may wait for it.

Rules only, so that steps need no Django; `process_lanes` computes the lanes of this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from queuemgr.base.errors import ConfigurationError
from queuemgr.steptools.machine import Machine

LaneName = Literal["io", "cpu", "embedding", "proc"]

GIB = 1 << 30
MAX_IO = 64
MAX_PROC = 8
MIN_PENDING: Mapping[LaneName, int] = {"io": 8, "cpu": 16, "embedding": 16, "proc": 4}


@dataclass(frozen=True)
class Lane:
    """One kind of work: `concurrency` items run at once, `max_pending` are taken and not finished.

    Raises `ConfigurationError` for a value below 1.
    """

    name: str
    concurrency: int
    max_pending: int

    def __post_init__(self) -> None:
        for field, value in (("concurrency", self.concurrency), ("max_pending", self.max_pending)):
            if value < 1:
                raise ConfigurationError(f"lane {self.name}: {field} is {value}; it must be at least 1")

    def at_most(self, concurrency: int) -> Lane:
        """The same lane with at most this concurrency."""
        return replace(self, concurrency=min(self.concurrency, concurrency))


@dataclass(frozen=True)
class LaneSetting:
    """One value of a worker, where it comes from, and the rule that computed it (empty: set as it is)."""

    name: str
    value: int
    source: str
    rule: str


@dataclass(frozen=True)
class Lanes:
    """Everything a worker process does at once, as a table of settings."""

    settings: tuple[LaneSetting, ...]

    def value(self, name: str) -> int:
        return next(setting.value for setting in self.settings if setting.name == name)

    def lane(self, name: LaneName) -> Lane:
        """`io`: threads and connections that wait; `cpu`: processes that compute; `embedding`: model
        runs; `proc`: other programs."""
        return Lane(name, self.value(f"{name}_concurrency"), self.value(f"{name}_pending"))


def compute_lanes(config: Mapping[str, int], source_of: Callable[[str], str], machine: Machine) -> Lanes:
    """Compute every value from the settings of `queuemgr.base.config.LaneSettings` by name (0: not
    set), their sources, and the machine. Pure."""

    def setting(name: str, default: int, rule: str) -> LaneSetting:
        configured = config[name]
        return LaneSetting(name, configured or default, source_of(name), "" if configured else rule)

    def setting_like(name: str, other: LaneSetting) -> LaneSetting:
        """Defaults to another setting's value, with that one's source."""
        return setting(name, 0, "") if config[name] else replace(other, name=name, rule=other.name)

    cpus = machine.cpus
    slots = setting("slots", 0, "")
    threads = setting("threads", cpus, "the available processors")
    io_threads = setting("io_threads", min(32, cpus + 4), "min(32, processors + 4), as Python's own pool")
    cap, why = _io_cap(io_threads.value, machine, bool(config["io_oversubscribe"]))
    io = _at_most(setting("io_concurrency", cap, why), cap, why)
    files = _at_most(setting_like("file_concurrency", threads), cap, why)
    imports = _at_most(setting_like("import_concurrency", threads), cap, why)
    cpu = setting("cpu_concurrency", cpus, "the available processors")
    model = setting("model_threads", 1, "")
    embedding = setting(
        "embedding_concurrency", max(1, cpus // model.value),
        f"processors / model_threads = {cpus} / {model.value}, at least 1",
    )  # fmt: skip
    proc = setting("proc_concurrency", min(4, cpus), "min(4, processors)")
    proc = _at_most(proc, MAX_PROC, f"at most {MAX_PROC}")
    pending = [
        LaneSetting(f"{name}_pending", max(least, 4 * at_once.value), at_once.source,
                    f"max({least}, 4 x {at_once.value})")
        for (name, least), at_once in zip(MIN_PENDING.items(), (io, cpu, embedding, proc), strict=True)
    ]  # fmt: skip
    return Lanes((slots, threads, io_threads, io, files, imports, cpu, embedding, model, proc, *pending))


def _at_most(setting: LaneSetting, cap: int, why: str) -> LaneSetting:
    """The setting, reduced to `cap` with the reason in its rule."""
    if setting.value <= cap:
        return setting
    return replace(setting, value=cap, rule=f"{setting.value} configured, {why}")


def _io_cap(io_threads: int, machine: Machine, oversubscribe: bool) -> tuple[int, str]:
    """Most io work at once, and why: more than this costs memory and waits no faster."""
    if oversubscribe:
        return MAX_IO, f"at most {MAX_IO}"
    gib = machine.memory_bytes / GIB
    memory = 16 if gib < 16 else 32 if gib < 32 else 64
    cap = min(MAX_IO, 4 * io_threads, memory)
    return cap, f"min({MAX_IO}, 4 x {io_threads} io threads, {memory} for {gib:.1f} GiB)"


def banner(settings: Iterable[LaneSetting]) -> str:
    """The settings as a table of aligned lines, printed when a worker starts."""
    return "\n".join(f"{s.name:21}  {s.value:<5}  {s.source:12}  {s.rule}".rstrip() for s in settings)
