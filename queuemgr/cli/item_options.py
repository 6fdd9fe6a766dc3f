"""What a command's options ask for each item: flags of its flow (`--force-ocr`), files (`--schema FILE`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from queuemgr.base.errors import BadInput
from queuemgr.cli.subcommands import Options
from queuemgr.flows import callbacks
from queuemgr.flows.flow import Flow, NewExecution, application_flows

LARGEST = 1 << 20
"""Bytes of such a file."""


class Asked(NamedTuple):
    """The flags that are set, and the content of the files that are given, by their names."""

    flags: Mapping[str, bool] = {}
    files: Mapping[str, bytes] = {}

    def of_each(self, flow: Flow, items: Iterable[NewExecution]) -> Iterator[NewExecution]:
        """The items with what is asked for each. Raises `BadInput`."""
        for item in items:
            if self.flags:
                item = callbacks.with_flags(flow, item, self.flags)
            for name, content in self.files.items():
                item = callbacks.with_file(flow, item, name, content)
            yield item


NOTHING = Asked()


def add_item_options(parser: Any) -> None:
    """An option for each flag and file of flows' items; one that two flows have is for both."""
    flows = list(application_flows())
    flags = {name: (text, flow.name) for flow in flows for name, text in flow.item_flags.items()}
    files = {name: (text, flow.name) for flow in flows for name, text in flow.item_files.items()}
    for name, (text, flow) in flags.items():
        parser.add_argument(_option(name), action="store_true", help=f"{text} (flow {flow})")
    for name, (text, flow) in files.items():
        parser.add_argument(_option(name), type=Path, metavar="FILE", help=f"{text} (flow {flow})")


def asked_by(flow: Flow, options: Options) -> Asked:
    """Raises `BadInput` for an option of another flow, and for a file that cannot be read."""
    flows = list(application_flows())
    flags = {name for each in flows for name in each.item_flags if options[name]}
    files = {name for each in flows for name in each.item_files if options[name]}
    if foreign := sorted((flags - flow.item_flags.keys()) | (files - flow.item_files.keys())):
        raise BadInput(f"{_option(foreign[0])} is not for items of flow {flow.name!r}")
    return Asked(dict.fromkeys(sorted(flags), True), {name: _read(options[name]) for name in sorted(files)})


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > LARGEST:
        raise BadInput(f"{path} has more than {LARGEST:,} bytes")
    return content
