"""Print the licences of every package installed beside this Python: `python compose/licences.py`.

A table, then what the LGPL and the MPL ask for, then the texts that the packages bring.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import Distribution, PackagePath, distributions

COPYLEFT = re.compile(r"GPL|MPL|Mozilla|EPL|CDDL")
LICENCE_FILE = re.compile(r"(un)?licen[cs]e|copying|notice|copyright|third.?party", re.IGNORECASE)
COPYLEFT_TEXT = re.compile(r"LESSER GENERAL PUBLIC LICENSE|Mozilla Public License", re.IGNORECASE)
NOTICE = """\
The packages below, or libraries in them, are used unmodified and as separate packages: each can be replaced
by a changed one that is installed in its place. Their source is at the address given, by that version."""


def main() -> None:
    packages = sorted(distributions(), key=lambda package: package.name.lower())
    for package in packages:
        print(f"{package.name} {package.version}: {licence(package)}")
    print(f"\n{NOTICE}\n")
    for package in filter(is_copyleft, packages):
        print(f"{package.name} {package.version}: {source(package)}")
    for package in packages:
        for file, text in texts(package):
            print(f"\n{'=' * 80}\n{package.name} {package.version}: {file}\n{'=' * 80}\n{text}")


def licence(package: Distribution) -> str:
    """The SPDX expression if there is one, else what the package says in words or in classifiers."""
    metadata = package.metadata
    words = [
        line for field in ("License-Expression", "License") if (line := _first_line(metadata.get(field)))
    ]
    classifiers = [c for c in metadata.get_all("Classifier", ()) if c.startswith("License :: ")]
    words += [", ".join(c.rpartition(" :: ")[2] for c in classifiers)]
    return next(filter(None, words), "not stated")


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


def is_copyleft(package: Distribution) -> bool:
    stated = COPYLEFT.search(licence(package))
    return bool(stated) or any(COPYLEFT_TEXT.search(text) for _, text in texts(package))


def source(package: Distribution) -> str:
    """Where the package says that its source is."""
    urls = dict(line.split(", ", 1) for line in package.metadata.get_all("Project-URL", ()))
    wanted = [
        url for label, url in urls.items() if re.search("source|repository|code|github", label, re.IGNORECASE)
    ]
    return next(iter([*wanted, *urls.values()]), package.metadata.get("Home-page") or "not stated")


def texts(package: Distribution) -> Iterator[tuple[PackagePath, str]]:
    for file in package.files or ():
        if is_licence(file) and (path := file.locate()).is_file():
            yield file, path.read_text(encoding="utf-8", errors="replace")


def is_licence(file: PackagePath) -> bool:
    """Any file in a folder of licences, and one named so at the top of a package or its metadata."""
    *folders, name = file.parts
    if name.endswith((".py", ".pyc", ".so")):
        return False
    return len(folders) <= 4 and any(LICENCE_FILE.match(part) for part in (*folders[1:], name))


if __name__ == "__main__":
    main()
