"""The kinds of faults: what each may hit, how long it lasts, and what the fleet may lose in it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from proof.ways import WAYS

WORKERS = ("alpha", "beta", "fork", "clock")
"""The worker groups faults choose from."""

LEASE_SECONDS = 8.0

TICK_SECONDS = 2.0
"""Seconds between two ticks: a heartbeat stands in for a beat that is missing."""

BOUND = 15.0
"""Seconds by which work continues after a fault: a lease runs out, a tick finds it, and the broker
is tried again after the 5 s its sockets wait; see `fleet.SETTINGS`."""

NETWORK_BOUND = 25.0
"""As `BOUND`, where packets were lost: TCP sends them again after a time as long as the outage."""

LOST_HOST_BOUND = 30.0 + BOUND
"""As `BOUND`, where the host may hold the scheduler lock: after the 30 s in which PostgreSQL waits for the
next statement of a transaction."""

HOSTS = WORKERS
OUTAGE = (3.0, LEASE_SECONDS + 6)
HARD = ("code that ends its process", "code that hangs")

TARGET, ANY = "target", "any"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault: its possible targets, and its shortest and longest duration in seconds.

    `needs` is what the machine must permit (`boxes`, `hosts`, `mounts`, `clock`, `pooler`). `bound` is the
    seconds by which work continues: after its end if it `stops` all work, after its beginning if only a part.
    `leases` says whose leases it may cost: its target's, any or nobody's. Nothing else is under way during
    one that is `alone`. What is not yet survived is not drawn unless it is asked for: `fails` says why.
    """

    name: str
    targets: Sequence[str]
    lasts: tuple[float, float] = (0.0, 0.0)
    only_on: str = ""
    needs: str = ""
    bound: float = BOUND
    leases: str = ""
    messages: bool = True
    alone: bool = False
    stops: bool = True
    fails: str = ""

    @property
    def longest(self) -> float:
        """Seconds from its beginning by which work continues."""
        return self.bound + (self.lasts[1] if self.stops else 0.0)

    def whose_leases(self, target: str) -> str:
        """What a fault of this kind records: the worker, `any` or nobody."""
        return target if self.leases == TARGET else self.leases


KINDS: tuple[Kind, ...] = (
    Kind("kill workers", WORKERS, (0.0, LEASE_SECONDS + 2), leases=TARGET, stops=False),
    Kind("freeze workers", WORKERS, (LEASE_SECONDS + 2, LEASE_SECONDS + 8), leases=TARGET),
    Kind("flush broker", ("broker",)),
    Kind("restart broker", ("broker",), (0.5, 6.0)),
    Kind("stall broker", ("broker",), (4.0, 15.0)),
    Kind("restart database", ("database",), (0.5, 4.0), only_on="postgres", leases=ANY),
    Kind("deliver again and late", ("messages",), messages=False, stops=False),
    Kind("two beats", ("beat",), (5.0, 15.0), messages=False, stops=False),
    Kind("no beat", ("beat",), (5.0, 20.0), messages=False, stops=False),
    Kind("full disk", WORKERS[:3], (5.0, 12.0), only_on="postgres", messages=False, stops=False),
    Kind("wrong clock", ("clock",), (10.0, 30.0), only_on="postgres", leases=TARGET, stops=False),
    Kind("restart container", ("alpha",), needs="boxes", leases=TARGET, stops=False),
    Kind("twin worker", ("alpha",), (6.0, 12.0), needs="boxes", messages=False, stops=False),
    Kind("suspend everything", ("everything",), (2.0, 6.0), needs="clock", leases=ANY, alone=True),
    Kind("foreign lock", ("database",), (2.0, 5.0), messages=False),
    Kind("database disk full", ("database",), (3.0, 8.0), needs="mounts", leases=ANY),
    Kind("restore backup", ("database",), (5.0, 15.0), leases=ANY, alone=True),
    Kind("object storage away", ("storage",), (5.0, 15.0), messages=False, stops=False),
    Kind("callbacks that raise", ("callbacks",), (20.0, 40.0), messages=False, stops=False),
    *(Kind(name, ("code",), messages=False, stops=False) for name in WAYS if name not in HARD),
    Kind("code that ends its process", ("code",), (4.0, 8.0), leases=ANY),
    Kind("code that hangs", ("code",), (4.0, 8.0), leases=ANY),
    *(
        Kind(name, HOSTS, OUTAGE, needs="hosts", leases=TARGET, bound=LOST_HOST_BOUND, stops=False)
        for name in ("cut off host", "cut off from the database", "deaf host", "mute host")
    ),
    Kind("cut off from the broker", HOSTS, OUTAGE, needs="hosts", bound=NETWORK_BOUND, stops=False),
    Kind("slow link", HOSTS, (5.0, 12.0), needs="hosts", leases=TARGET),
    Kind("lossy link", HOSTS, (5.0, 12.0), needs="hosts", leases=TARGET, bound=NETWORK_BOUND),
    Kind("lose host", HOSTS, (2.0, 10.0), needs="hosts", leases=TARGET, bound=LOST_HOST_BOUND),
    Kind("restart pooler", ("pooler",), (0.5, 4.0), only_on="postgres", needs="pooler", leases=ANY),
)


def fitting(database: str, able: Collection[str], asked: Collection[str] = ()) -> tuple[Kind, ...]:
    """The kinds to be drawn on this database where the machine is `able` to do so much: those asked for by
    name, or all that the product is to survive."""
    there = [kind for kind in _on(database) if not kind.needs or kind.needs in able]
    return tuple(kind for kind in there if (kind.name in asked if asked else not kind.fails))


def left_out(database: str, able: Collection[str]) -> list[str]:
    """A sentence for each kind that fits the database and cannot be drawn here."""
    lacking = [kind for kind in _on(database) if kind.needs and kind.needs not in able]
    return [f"{kind.name}: not drawn, {LACKING[kind.needs]}" for kind in lacking]


def _on(database: str) -> list[Kind]:
    return [kind for kind in KINDS if kind.only_on in ("", database)]


LACKING = {
    "boxes": "PID namespaces are not permitted here",
    "hosts": "network namespaces are not permitted here, or --one-host was given",
    "mounts": "file systems may not be mounted here",
    "clock": "there is no C compiler for the stepped clock",
    "pooler": "PgBouncer is not installed",
}
