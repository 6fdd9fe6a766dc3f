"""An operator who cancels, retries and reprioritises executions all the time, whatever else happens."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from random import Random

from proof.fleet import Fleet
from proof.records import Order
from proof.shared_keys import SharedKeys
from proof.tables import Unreachable

PAUSE = (0.3, 2.0)
"""Seconds between two orders."""

YOUNGEST = 60
"""How many of the youngest executions are chosen from."""

VERBS = ("cancel", "cancel", "retry", "retry", "priority")


class Operator:
    """Orders in its own thread and by its own process, until stopped."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self._fleet, self._rng = fleet, Random(f"operator {seed}")
        self._console = fleet.new_console("operator")
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="operator", daemon=True)
        self.orders: list[Order] = []
        self.shared = SharedKeys("operator", seed, self._console.do)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Give no more orders, and retry what was cancelled last."""
        self._stopped.set()
        self._thread.join()
        self._console.close()

    def _run(self) -> None:
        while not self._stopped.wait(self._rng.uniform(*PAUSE)):
            with suppress(Unreachable):
                self._order(self._rng.choice(VERBS))
                self.shared.call()

    def _order(self, verb: str) -> None:
        key = self._chosen(verb)
        if key is None:
            return
        rank = [self._rng.choice(("high", "normal", "low"))] if verb == "priority" else []
        began = time.time()
        order = Order(verb, f"probe/{key}", began, float("inf"))
        self.orders.append(order)  # before it is given, as it may be carried out and never reported
        changed, _ = self._console.do("queue", verb, *rank, key, "--flow", "probe")
        self.orders[-1] = Order(
            verb, f"probe/{key}", began, time.time() if changed else float("inf"), changed
        )

    def _chosen(self, verb: str) -> str | None:
        cancelled = "AND state = 'cancelled'" if verb == "retry" else ""
        rows = self._fleet.tables.rows(
            f"SELECT key FROM queuemgr_execution WHERE flow = 'probe' {cancelled} "
            f"ORDER BY id DESC LIMIT {YOUNGEST}"
        )
        return str(self._rng.choice(rows)["key"]) if rows else None
