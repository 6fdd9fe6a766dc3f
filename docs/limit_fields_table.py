"""What docs/concepts.md and docs/operate.md say of the fields of a limit, made of their declarations by
make_pages.py."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from queuemgr.base.column_sizes import MAX_INTEGER

if TYPE_CHECKING:
    from queuemgr.models.settable import SettableField

DOCS = Path(__file__).resolve().parents[1] / "docs"
TABLE = re.compile(r"(?<=<!-- fields of a limit -->\n).*?(?=<!-- end -->)", re.DOTALL)
OPTIONS = re.compile(r"(?<=<!-- options of an allowance -->\n).*?(?=<!-- end -->)", re.DOTALL)
FIGURES = re.compile(
    r"\| `limits\[\]\.allowances\[\]\.allowance`.*?(?=\| `limits\[\]\.allowances\[\]\.text`)", re.DOTALL
)
LISTED = re.compile(r"(\| `limits\[\]\.running` [^\n]*\n).*?(?=\| `limits\[\]\.spent`)", re.DOTALL)


def concepts(text: str) -> str:
    """The page with the table of all fields, and of all that may be said of an allowance."""
    fields, options = "\n".join(_table()), "\n".join(_options())
    return OPTIONS.sub(lambda _: f"{options}\n", TABLE.sub(lambda _: f"{fields}\n", text))


def operate(text: str) -> str:
    """The page with a row for each field that lists of limits have as it is set, and for each figure of an
    allowance."""
    rows, figures = "\n".join(_listed(text)), "\n".join(_figures())
    text = LISTED.sub(lambda before: f"{before[1]}{rows}\n", text)
    return FIGURES.sub(lambda _: f"{figures}\n", text)


PAGES = {DOCS / "concepts.md": concepts, DOCS / "operate.md": operate}


def _table() -> Iterator[str]:
    from queuemgr.models import LIMIT_FIELDS

    yield "| field | value | default | means | permission |"
    yield "|---|---|---|---|---|"
    for name, field in LIMIT_FIELDS.items():
        cells = (f"`{name}`", _value(field), _default(field), field.meaning, f"`{field.permission}`")
        yield f"| {' | '.join(cells)} |"


def _value(field: SettableField) -> str:
    if field.is_number:
        least, most = field.range
        bounds = f"from {least}" if most == MAX_INTEGER else f"{least} to {most:,}"
        return f"whole number ({field.unit}), {bounds}"
    return f"{field.unit}, at most {field.longest:,} characters"


def _default(field: SettableField) -> str:
    return "none" if field.default in (None, "") else f"`{field.default}`"


def _listed(text: str) -> Iterator[str]:
    from queuemgr.models import LIMIT_FIELDS

    for name, field in LIMIT_FIELDS.items():
        if field.is_listed and f"| `limits[].{name}[]." not in text:
            yield f"| `limits[].{name}` | {field.meaning.removesuffix('.')} |"


def _options() -> Iterator[str]:
    from queuemgr.base import allowance

    yield "| word | followed by | means |"
    yield "|---|---|---|"
    for word, option in {**allowance.KINDS, **allowance.OPTIONS}.items():
        yield f"| `{word}` | {option.value} | {option.meaning} |"


def _figures() -> Iterator[str]:
    from queuemgr.reporting.allowances import FIGURES

    for name, figure in FIGURES.items():
        yield f"| `limits[].allowances[].{name}` | {figure.meaning} |"
