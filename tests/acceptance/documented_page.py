"""What a page of the documentation tells its reader to do: files to write, commands to type, Python to enter.

A block of code with the path of a file as its caption is that file; `, at the end` behind the path adds to
one that is there. In a console each line after `$ ` is typed, and what follows must be printed; in a Python
session it is as in a doctest. `...` in a line of its own, or in a line, stands for anything.

A comment before a block says what is special about it:

    <!-- not run: it needs a cluster -->               and why
    <!-- runs until it says: ready -->                 it is left running
    <!-- after Ctrl-C, runs until it says: ready -->   what is running is stopped first
    <!-- given: a failed call -->                      a scene that is made before it (documented_scenes.py)
    <!-- exit code 3 -->                               how its last command ends, if not with 0
    <!-- continues: quick_start.md -->                 of the page: the project is that of another page

Two of them are separated by `; `.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import dedent

FENCE = re.compile(
    r"(?:^ *<!-- (?P<mark>[^\n]*?) -->\n\n?)?"
    r"^(?P<indent> *)(?P<fence>```+)(?:\{code-block\} )?(?P<language>[\w{}-]*)\n(?P<text>.*?)^ *(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)
OPTION = re.compile(r":(\w[\w-]*): ?(.*)\n")
CONTINUES = re.compile(r"^<!-- continues: (\S+) -->$", re.MULTILINE)
STAYS = re.compile(r"(?P<after>after Ctrl-C, )?runs until it says: (?P<until>.+)")
NOT_RUN = re.compile(r"not run: (?P<why>.+)")
GIVEN = re.compile(r"given: (?P<scene>[^;]+)")
ENDS = re.compile(r"exit code (?P<code>\d+)")
DIRECTIVES = ("{toctree}", "{eval-rst}")
"""What the site's generator reads: no code."""


@dataclass(frozen=True)
class Command:
    """What is typed, and what is printed, if that is shown."""

    text: str
    printed: str


@dataclass(frozen=True)
class Block:
    """One block of code of a page."""

    line: int
    language: str
    mark: str
    caption: str
    text: str

    @property
    def why_not(self) -> str:
        """Why it is not run, if it is not."""
        found = NOT_RUN.fullmatch(self.mark)
        return found["why"] if found else ""

    @property
    def until(self) -> str:
        """What its command says once it is ready, if it stays."""
        found = STAYS.fullmatch(self.mark)
        return found["until"] if found else ""

    @property
    def given(self) -> str:
        """The scene that is made before it."""
        found = GIVEN.search(self.mark)
        return found["scene"] if found else ""

    @property
    def exit_code(self) -> int:
        found = ENDS.search(self.mark)
        return int(found["code"]) if found else 0

    @property
    def is_marked_well(self) -> bool:
        """Whether its mark, if it has one, says nothing that nobody reads."""
        if not self.mark or self.why_not or self.until:
            return True
        return all(GIVEN.fullmatch(part) or ENDS.fullmatch(part) for part in self.mark.split("; "))

    @property
    def is_restart(self) -> bool:
        found = STAYS.fullmatch(self.mark)
        return bool(found and found["after"])

    @cached_property
    def commands(self) -> list[Command]:
        """What is typed in a console; a line that ends with a backslash continues."""
        text = self.text.replace("\\\n", "\\\0")
        parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
        if parts[0].strip():
            raise ValueError(f"line {self.line}: a console begins with `$ `")
        typed = (part.partition("\n") for part in parts[1:])
        return [Command(text.replace("\0", "\n"), printed.strip()) for text, _, printed in typed]


@dataclass(frozen=True)
class Page:
    path: Path

    @cached_property
    def continues(self) -> str:
        found = CONTINUES.search(self.path.read_text())
        return found[1] if found else ""

    @cached_property
    def blocks(self) -> list[Block]:
        text = self.path.read_text()
        found = FENCE.finditer(text)
        made = (_block(text.count("\n", 0, match.start("fence")) + 1, match) for match in found)
        return [block for block in made if block.language not in DIRECTIVES]


def _block(line: int, match: re.Match[str]) -> Block:
    text, caption = dedent(match["text"]) if match["indent"] else match["text"], ""
    while option := OPTION.match(text):
        caption = option[2] if option[1] == "caption" else caption
        text = text[option.end() :]
    return Block(line, match["language"], match["mark"] or "", caption, text.lstrip("\n"))
