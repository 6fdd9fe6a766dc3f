"""Files that a flow takes with its items: `queue enqueue --schema FILE`, `queue import --schema FILE`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from queuemgr.base.errors import BadInput
from queuemgr.cli.subcommands import Options
from queuemgr.flows import callbacks
from queuemgr.flows.flow import Flow, NewExecution, application_flows

LARGEST = 1 << 20
"""Bytes of such a file."""


def add_item_files(parser: Any) -> None:
    """An option for each; one that two flows have is for both."""
    described = {
        name: (text, flow.name) for flow in application_flows() for name, text in flow.item_files.items()
    }
    for name, (text, flow) in described.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=Path, metavar="FILE", help=f"{text} (flow {flow})"
        )


def files_of(flow: Flow, options: Options) -> dict[str, bytes]:
    """What is in those that are given. Raises `BadInput` for one of another flow, or that cannot be read."""
    known = {name for each in application_flows() for name in each.item_files}
    given = {name: options[name] for name in sorted(known) if options[name]}
    if foreign := sorted(given.keys() - flow.item_files.keys()):
        raise BadInput(f"--{foreign[0].replace('_', '-')} is not for items of flow {flow.name!r}")
    return {name: _read(path) for name, path in given.items()}


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > LARGEST:
        raise BadInput(f"{path} has more than {LARGEST:,} bytes")
    return content


def with_files(
    flow: Flow, items: Iterable[NewExecution], files: Mapping[str, bytes]
) -> Iterator[NewExecution]:
    """The items with what the files ask for each."""
    for item in items:
        for name, content in files.items():
            item = callbacks.with_file(flow, item, name, content)
        yield item
