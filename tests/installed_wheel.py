"""Our distribution as others install it: its wheel, in environments with what that requires and nothing else.

The other packages of an environment are links to those the tests run with, so that no index is needed.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import venv
from collections import Counter
from collections.abc import Iterable
from functools import cache
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path
from zipfile import ZipFile

from tests.compose_file import ROOT
from tests.requirements import brought_by
from tests.requirements import distribution as required

SOURCES = ("pyproject.toml", "README.md", "LICENSE", "queuemgr")
BUILD = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"


def built_wheel(directory: Path) -> Path:
    """The wheel of this checkout, built in the directory by the first of the processes that ask for it."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return next(directory.glob("*.whl"), None) or _build(directory)


def unpacked_wheel(wheel: Path) -> Path:
    """What is in the wheel, beside it: unpacked once, and so compiled once for all environments."""
    place = wheel.parent / "unpacked"
    with (wheel.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            with ZipFile(wheel) as files:
                files.extractall(place)
    return place


def _build(directory: Path) -> Path:
    """Of a copy, since a build leaves its own copies beside the sources, and takes them up again."""
    copy = directory / "sources"
    copy.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy / name)
    subprocess.run([sys.executable, "-c", BUILD, directory], cwd=copy, check=True, capture_output=True)
    return next(directory.glob("*.whl"))


class Environment:
    """A virtual environment with the wheel, what these extras of it bring, and the packages in `also` with
    what they require."""

    def __init__(
        self, directory: Path, wheel: Path, extras: Iterable[str] = (), also: Iterable[str] = ()
    ) -> None:
        self.directory = directory
        self.python = directory / "bin" / "python"
        venv.create(directory, symlinks=True)
        (self.packages,) = directory.glob("lib/python*/site-packages")
        for part in unpacked_wheel(wheel).iterdir():
            (self.packages / part.name).symlink_to(part)
        for name in sorted(required(*extras) | brought_by(also)):
            self._link(distribution(name))

    def _link(self, package: Distribution) -> None:
        """Link each folder that only this package has files in, and each file of those it shares."""
        owners = _owners()
        for path in package.files or ():
            top = path.parts[0]
            if top == ".." or "__pycache__" in path.parts:
                continue
            part = Path(top) if owners[top] == 1 else Path(path)
            target = self.packages / part
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(Path(str(package.locate_file(part))).resolve())
        for entry in package.entry_points.select(group="console_scripts"):
            self._write_script(entry.name, entry.module, entry.attr)

    def _write_script(self, name: str, module: str, function: str) -> None:
        script = self.directory / "bin" / name
        script.write_text(
            f"#!{self.python}\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n"
        )
        script.chmod(0o755)


@cache
def _owners() -> Counter[str]:
    """How many of the packages installed here have files in each folder of `site-packages`."""
    return Counter(
        top for package in distributions() for top in {path.parts[0] for path in package.files or ()}
    )
