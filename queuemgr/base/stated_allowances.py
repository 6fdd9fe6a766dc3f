"""The text of allowances as a person or code states it: refused if more would be allowed than it says."""

from __future__ import annotations

from queuemgr.base.allowance import ENTRY, entries_of, parse_allowances
from queuemgr.base.errors import BadInput
from queuemgr.base.meters import meter_named


def in_normal_form(text: str) -> str:
    """The same allowances as `str` writes them. Raises `BadInput`, also of an amount that would be rounded
    up; what a row has is read all the same, should its meter be coarser now."""
    read = parse_allowances(text)
    for entry in entries_of(text):
        _refuse_rounded(" ".join(entry.split()))
    return "; ".join(map(str, read))


def _refuse_rounded(entry: str) -> None:
    match = ENTRY.fullmatch(entry)
    if match is None:
        return
    meter, options = meter_named(match["meter"]), match["options"].split()
    burst = options[options.index("burst") + 1 :][:1] if "burst" in options else []
    for number in (match["amount"], *burst):
        if meter.is_rounded(number):
            raise BadInput(
                f"allowance {entry!r}: {number} is finer than {meter.text(1)}, the least that is counted of "
                f"{meter.name}; say it of a longer time"
            )
