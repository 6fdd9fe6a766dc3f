"""Fail if a page of the site loads anything from another host: foreign_hosts.py DIRECTORY."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

FOREIGN = re.compile(r"\s*(?:https?:)?//", re.IGNORECASE)
IN_STYLE = re.compile(r"(?:url\(|@import)\s*['\"]?\s*(?:https?:)?//[^)'\"\s]*", re.IGNORECASE)
LOADS = {"action", "data", "poster", "src", "srcset"}


class Loads(HTMLParser):
    """What a page makes a browser load, from another host."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            loads = name in LOADS or (name == "href" and tag not in ("a", "area"))
            canonical = tag == "link" and ("rel", "canonical") in attrs
            if loads and not canonical and FOREIGN.match(value or ""):
                self.found.append(f"<{tag} {name}={value}>")
            if name == "style":
                self.found += IN_STYLE.findall(value or "")


def foreign_loads(directory: Path) -> Iterator[str]:
    """As `index.html: <script src=https://…>`."""
    for path in sorted(directory.rglob("*")):
        if path.suffix == ".html":
            page = Loads()
            page.feed(path.read_text())
            found = page.found + IN_STYLE.findall(
                " ".join(re.findall(r"<style.*?</style>", path.read_text(), re.DOTALL))
            )
        elif path.suffix == ".css":
            found = IN_STYLE.findall(path.read_text())
        else:
            continue
        yield from (f"{path.relative_to(directory)}: {load}" for load in found)


if __name__ == "__main__":
    loads = list(foreign_loads(Path(sys.argv[1])))
    print("\n".join(loads), end="\n" if loads else "")
    sys.exit(bool(loads))
