"""Where an execution's trace and log lines are, in the programs that the settings name."""

from __future__ import annotations

from urllib.parse import quote

from queuemgr.base.config import observability_settings
from queuemgr.flows.flow import Link
from queuemgr.models import Execution


def trace_of(execution: Execution) -> str:
    """The id of its trace; empty for none."""
    parts = execution.traceparent.split("-")
    return parts[1] if len(parts) > 1 else ""


def outside_links(execution: Execution) -> list[Link]:
    """To its trace, if it has one, and to its log lines."""
    stated, trace = observability_settings(), trace_of(execution)
    addresses = {"trace": stated.trace_url if trace else "", "log lines": stated.log_url}
    return [
        Link(label, _filled(address, execution, trace)) for label, address in addresses.items() if address
    ]


def _filled(address: str, execution: Execution, trace: str) -> str:
    given = {"execution": execution.pk, "flow": execution.flow, "key": execution.key, "trace": trace}
    for name, value in given.items():
        address = address.replace(f"{{{name}}}", quote(str(value), safe=""))
    return address
