"""Which flow new work goes into when a person or a program names none."""

from __future__ import annotations

from queuemgr.base.config import queue_settings
from queuemgr.base.errors import BadInput
from queuemgr.flows.flow import Flow, application_flows, get_flow


def choose_flow(name: str | None) -> Flow:
    """The flow of this name; without one SLUICE_DEFAULT_FLOW, else the only one applications registered.

    Raises `UnknownFlow` for a name that is not registered, and `BadInput` where one must be named.
    """
    if wanted := name or queue_settings().default_flow:
        return get_flow(wanted)
    flows = application_flows()
    if len(flows) != 1:
        known = ", ".join(sorted(flow.name for flow in flows)) or "none"
        raise BadInput(f"name a flow, or set SLUICE_DEFAULT_FLOW; registered: {known}")
    return flows[0]
