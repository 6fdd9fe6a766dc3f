"""Links of the pages that lead out of the site.

The pages are read in the repository, too, where `../queuemgr/extend` and `../CHANGELOG.md` lead somewhere. On
the site a link to a file that is one of its pages leads to that page, and a link to any other file or
directory of the repository becomes its path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1]
REPOSITORY = DOCS.parent
LINK = re.compile(
    r"(?<!!)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^()\s:#]+)(?P<anchor>#[^()\s]*)?\)"
)
ANY_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
NAMED = re.compile(r"^\[([^\]]+)\]: (\S+)$", re.MULTILINE)
FENCE = re.compile(r"^(```|~~~|:::)", re.MULTILINE)


SHOWN = {
    "project/changelog.md": "CHANGELOG.md", "project/contributing.md": "CONTRIBUTING.md",
    "project/reporting.md": "SECURITY.md", "project/compose.md": "compose/README.md",
}  # fmt: skip
"""Pages that show a file which is elsewhere in the repository."""


def pages() -> dict[Path, Path]:
    """The page of each file that is one."""
    own = {path: path for path in DOCS.rglob("*.md")}
    return own | {REPOSITORY / file: DOCS / page for page, file in SHOWN.items()}


def shown(page: Path) -> str:
    """The text of a page as the site shows it."""
    elsewhere = SHOWN.get(page.relative_to(DOCS).as_posix())
    source = REPOSITORY / elsewhere if elsewhere else page
    return on_the_site(source.read_text(), source, page)


def on_the_site(text: str, source: Path, page: Path) -> str:
    """A text with its links as they are on the site. Code blocks stay as they are."""
    known, written_in = pages(), source.parent

    def replaced(link: re.Match[str]) -> str:
        path = (written_in / link["target"]).resolve()
        if path in known:
            target = os.path.relpath(known[path], page.parent)
            return f"[{link['text']}]({target}{link['anchor'] or ''})"
        if path.is_relative_to(DOCS) or not path.is_relative_to(REPOSITORY):
            return link[0]
        name = path.relative_to(REPOSITORY).as_posix()
        return f"`{name}`" if link["text"].strip("`") in name else f"{link['text']} (`{name}`)"

    return "".join(part if in_code else LINK.sub(replaced, part) for part, in_code in _parts(text))


def links(text: str) -> Iterator[tuple[str, str]]:
    """The text and the target of each link and picture outside of code blocks, by place or by name."""
    for part, in_code in _parts(text):
        if not in_code:
            yield from ANY_LINK.findall(part)
            yield from NAMED.findall(part)


def _parts(text: str) -> list[tuple[str, bool]]:
    """The text in parts, and whether each is code between fences."""
    parts: list[tuple[str, bool]] = []
    lines: list[str] = []
    fence = ""
    for line in text.splitlines(keepends=True):
        mark = FENCE.match(line.lstrip())
        if mark and not fence:
            parts, lines, fence = [*parts, ("".join(lines), False)], [], mark[0]
        lines.append(line)
        if fence and mark and len(lines) > 1 and line.strip() == fence:
            parts, lines, fence = [*parts, ("".join(lines), True)], [], ""
    return [*parts, ("".join(lines), bool(fence))]


def _read(app: Any, docname: str, source: list[str]) -> None:
    source[0] = shown(Path(app.env.doc2path(docname)).resolve())


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
