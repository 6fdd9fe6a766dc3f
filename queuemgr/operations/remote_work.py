"""What may be enqueued through the network (API, pages) and from files of others: no payload that only a
machine of the fleet may give, and no key that schedules and batches give themselves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from queuemgr.base import meters
from queuemgr.base.column_sizes import MAX_INTEGER
from queuemgr.base.errors import BadInput, BadPayload, UnknownFlow
from queuemgr.base.redaction import describe_error
from queuemgr.flows import callbacks, payload_validation
from queuemgr.flows.flow import HAND_OVER, Flow, NewExecution, all_phases, get_flow
from queuemgr.lifecycle import webhook_events
from queuemgr.operations.controls import COMMAND, Actor

NONE: Mapping[str, Any] = {}

OF_THE_QUEUE = re.compile(r"schedule:|batch:[0-9]+:")
"""Beginnings of the keys of due times and of callbacks: whoever knew one could keep it from running."""


def check_key(key: str) -> None:
    """Raise `BadInput` for a key that the queue gives itself."""
    if OF_THE_QUEUE.match(key):
        raise BadInput(f"key {key[:60]!r}: keys of schedules and of callbacks begin so; give another")


def checked_payload(flow: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """A payload from the network, as it may be stored; raises `BadInput`."""
    stored = payload_validation.validate(payload)
    _refuse_forged(flow, stored)
    if flow == "probe":
        return _probe(stored)
    _check_members(flow, stored)
    return stored


OF_A_MACHINE = frozenset({"trace", "die"})
"""A probe's options that write a file, or kill the worker."""


def payload_by(
    by: Actor, flow: str, payload: Mapping[str, Any], before: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The payload that this person gives, as it may be stored; `before` is what was there. A command may give
    any. Raises `BadInput`."""
    stored = payload_validation.validate(payload)
    if by.source != COMMAND:
        refuse_local(flow, stored, before)
    _check_members(flow, stored)
    return stored


def payload_members(flow: Flow) -> type[BaseModel] | None:
    """The model of this flow's payloads, if it has one. Raises `CallbackFailed`."""
    return Probe if flow.name == "probe" else callbacks.payload_model(flow)


def _check_members(name: str, payload: Mapping[str, Any]) -> None:
    """Raise `BadPayload` for what the flow's model of payloads does not take; options of a task pass."""
    try:
        model = callbacks.payload_model(get_flow(name))
    except UnknownFlow:
        return  # which another process may know
    if model is not None:
        _read(model, {n: value for n, value in payload.items() if not n.startswith("@")})


def new_execution(
    name: str, item: str | None, key: str = "", payload: Mapping[str, Any] = NONE
) -> NewExecution:
    """What is enqueued of an item, or of a key and a payload, from the network. Raises `BadInput`; outside of
    any transaction, since reading an item may take its time."""
    flow = get_flow(name)
    takes_items = flow.parse_remote_item or flow.parse_item
    if item is not None:
        if takes_items is None:
            raise BadInput(f"flow {name} takes no items: give a key and a payload")
        new = callbacks.parse_remote_item(flow, item)
    elif takes_items is not None:
        raise BadInput(f"flow {name} makes keys itself: give an item")
    else:
        new = NewExecution(payload_validation.check_key(key), checked_payload(name, payload))
    check_key(new.key)
    return new


def refuse_local(flow: str, payload: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> None:
    """Raise `BadInput` for what only a person on a machine of the fleet may give, unless it was there."""
    _refuse_forged(flow, payload, before)
    local = [name for name in sorted(OF_A_MACHINE & payload.keys()) if flow == "probe"]
    if given := [name for name in local if (before or {}).get(name) != payload[name]]:
        raise BadInput(f"a probe's {given[0]} is for commands on a machine of the fleet: leave it out")


def _refuse_forged(flow: str, payload: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> None:
    """Raise `BadInput` for a delivery of words that are not ours, which would be signed, and for a message to
    any queue of the broker."""
    if flow == webhook_events.FLOW and payload != before:
        raise BadInput(f"executions of {flow} say what happened, signed: send a test instead")
    if flow == HAND_OVER and payload != before:
        raise BadInput(f"executions of {flow} are made by queue failed hand-over only")


def check_flow(by: Actor, name: str) -> None:
    """Raise `BadInput` for a flow whose keys and payloads are made of items, which this person may not give;
    `UnknownFlow` for one that is none."""
    flow = get_flow(name)
    if by.source != COMMAND and (flow.parse_remote_item or flow.parse_item):
        raise BadInput(f"flow {name} makes keys itself, of items: it takes no other payload from here")


def _known_phase(name: str) -> str:
    if name and name not in all_phases():
        raise ValueError(f"the phase is one of {', '.join(all_phases())}")
    return name


Number = Annotated[int, Field(ge=0, le=MAX_INTEGER)]


def _known_meter(name: str) -> str:
    meters.meter_named(name)
    return name


MeterName = Annotated[str, Field(max_length=32), AfterValidator(_known_meter)]
MeterNumber = Annotated[float, Field(ge=0, le=MAX_INTEGER)]


class Probe(BaseModel):
    """A probe's payload over the network: without options that write files or kill the worker."""

    model_config = ConfigDict(extra="forbid")

    seconds: float = Field(0, ge=0, le=3600)
    cpu_ms: float = Field(0, ge=0, le=60_000)
    phase: Annotated[str, Field(max_length=32), AfterValidator(_known_phase)] = ""
    requests: Number = 0
    limit_key: Annotated[str, Field(max_length=200, pattern="^[^\\x00-\\x1f\\x7f]*$")] = ""
    tenant: Annotated[str, Field(max_length=100, pattern="^[^\\x00-\\x20\\x7f]*$")] = ""
    weight: int = Field(1, ge=1, le=100_000)
    resources: dict[
        Annotated[str, Field(pattern="^[a-z_]{1,20}$")], Annotated[int, Field(ge=1, le=100_000)]
    ] = {}
    uses: dict[MeterName, MeterNumber] = {}
    spends: dict[MeterName, MeterNumber] = {}
    fail: Annotated[str, Field(max_length=32, pattern="^[a-z_]*$")] = ""
    retry_after: float = Field(0, ge=0, le=86_400)


def _probe(payload: dict[str, Any]) -> dict[str, Any]:
    return _read(Probe, payload).model_dump(exclude_defaults=True)


def _read(model: type[BaseModel], payload: Mapping[str, Any]) -> BaseModel:
    try:
        return model.model_validate(dict(payload))
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False, include_context=False)
        fields = {str(problem["loc"][0]): problem["msg"] for problem in problems if problem["loc"]}
        where = ".".join(map(str, ("payload", *problems[0]["loc"])))
        raise BadPayload(f"{where}: {problems[0]['msg']}", fields) from None
    except Exception as error:  # what a validator of an application raises
        raise BadInput(f"the payload is refused: {describe_error(error)}") from error
