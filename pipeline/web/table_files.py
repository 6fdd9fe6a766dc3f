"""A table as CSV and as a workbook, in which no text is a formula; few rows are in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import IO

import xlsxwriter

from pipeline import files
from pipeline.web.paper_columns import Cell
from queuemgr.extend.admin import csv_line

TEXT_ONLY = {
    "constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False,
    "strings_to_numbers": False, "nan_inf_to_errors": True,
}  # fmt: skip


def as_csv(labels: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Iterator[str]:
    """With a mark at the beginning by which spreadsheets know that it is UTF-8."""
    yield "\ufeff" + csv_line(labels)
    for row in rows:
        yield csv_line(row)


def as_xlsx(labels: Sequence[str], rows: Iterable[Sequence[Cell]]) -> IO[bytes]:
    """A file open for reading, which is removed when it is closed."""
    folder = str(files.scratch())
    file = tempfile.NamedTemporaryFile(dir=folder, suffix=".xlsx")  # noqa: SIM115 - the response closes it
    workbook = xlsxwriter.Workbook(file.name, {**TEXT_ONLY, "tmpdir": folder})
    sheet, bold = workbook.add_worksheet("Papers"), workbook.add_format({"bold": True})
    sheet.freeze_panes(1, 0)
    for at, label in enumerate(labels):
        sheet.write_string(0, at, label, bold)
    for number, row in enumerate(rows, 1):
        for at, value in enumerate(row):
            _write(sheet, number, at, value)
    workbook.close()
    file.seek(0)
    return file


def _write(sheet: xlsxwriter.worksheet.Worksheet, row: int, column: int, value: Cell) -> None:
    if isinstance(value, int | float):
        sheet.write_number(row, column, value)
    elif value:
        sheet.write_string(row, column, value)
