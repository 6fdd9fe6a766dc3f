"""Tables as plain text, for pipes and files: columns side by side, nothing wrapped, no trailing blanks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich.cells import cell_len

from queuemgr.cli.output import Table

GAP = "  "


def lines_of(part: Table | str) -> Iterator[str]:
    if isinstance(part, str):
        yield from part.split("\n")
        return
    if part.title:
        yield from part.title.split("\n")
    rows = [part.columns, *part.rows] if any(part.columns) else part.rows
    cells = [[cell.expandtabs().split("\n") for cell in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip_longest(*cells, fillvalue=[""])]
    for row in cells:
        for line in zip_longest(*row, fillvalue=""):
            yield GAP.join(map(_padded, line, widths)).rstrip()


def _width(cell: Sequence[str]) -> int:
    """Columns of a terminal: a Chinese character takes two."""
    return max(map(cell_len, cell))


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))
