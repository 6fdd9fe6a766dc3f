"""The faults, one class for each kind: `begin` causes it, `end` undoes it after a while."""

from __future__ import annotations

from collections.abc import Mapping

from proof.faults import broker, code, database, machines, network, pooler, workers
from proof.faults.fault import Fault

FAULTS: Mapping[str, type[Fault]] = {
    **workers.FAULTS,
    **broker.FAULTS,
    **database.FAULTS,
    **code.FAULTS,
    **machines.FAULTS,
    **network.FAULTS,
    **pooler.FAULTS,
}
