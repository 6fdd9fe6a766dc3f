"""Write the locks beside this file: what is installed, by version and by the hashes of its wheels.

    python locks/make_locks.py             # versions change only where pyproject.toml makes them
    python locks/make_locks.py --upgrade   # the newest versions that it allows

A lock is a requirements file for `pip install --require-hashes`. It holds for every Python and platform
that the project supports, by markers. It names wheels, since to build an sdist is to run its code, and sdists
only of packages that publish no wheel. It names no index, so that any mirror may serve it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
OLDEST_PYTHON = "3.11"
EXTRAS_OF_IMAGE = ("local", "postgres", "telemetry", "web")
GROUPS_OF_IMAGE = ("papers", "ocr")


def distribution(extras: tuple[str, ...], groups: tuple[str, ...]) -> tuple[str, ...]:
    """The distribution with these extras, and what these groups add for the work in this repository."""
    return ("pyproject.toml", *(f"--extra={e}" for e in extras), *(f"--group={g}" for g in groups))


LOCKS: dict[str, tuple[str, ...]] = {
    "all": (
        *distribution((), (*GROUPS_OF_IMAGE, "s3", "samples", "test", "services", "check")),
        "--all-extras",
    ),
    "install": distribution((*EXTRAS_OF_IMAGE, "django-tasks"), (*GROUPS_OF_IMAGE, "test", "check")),
    "image": distribution(EXTRAS_OF_IMAGE, GROUPS_OF_IMAGE),
    "audit": ("--group=audit",),
    "peers": ("--group=peers",),
    "docs": distribution(("web", "django-tasks"), ("docs",)),
    "build": ("--group=build",),
    "uv": ("--group=uv",),
}
"""The name of each lock, and what uv is asked for it. The versions of the first hold in the others."""

HEADER = "# Made by `make lock` from pyproject.toml; do not edit.\n"
FREE_THREADED = re.compile(r"cp\d+t|abi3t")


def main(upgrade: bool) -> None:
    for name, wanted in LOCKS.items():
        packages = resolve(name, wanted, upgrade)
        lock(name).write_text(HEADER + "".join(entry(package) for package in packages))
        print(f"{lock(name).relative_to(HERE.parent)}: {len(packages)} packages")


def lock(name: str) -> Path:
    return HERE / f"{name}.txt"


def resolve(name: str, wanted: tuple[str, ...], upgrade: bool) -> list[dict[str, Any]]:
    """The packages for every Python and platform at once; those locked keep their version if they may."""
    same = [] if name == "all" else [f"--constraints={lock('all')}"]
    with tempfile.TemporaryDirectory() as scratch:
        versions, resolved = Path(scratch) / "versions.txt", Path(scratch) / "pylock.toml"
        if lock(name).exists() and not upgrade:
            shutil.copy(lock(name), versions)
        uv_compile(*wanted, *same, f"--output-file={versions}")
        uv_compile(*wanted, f"--constraints={versions}", f"--output-file={resolved}")
        return list(tomllib.loads(resolved.read_text())["packages"])


def uv_compile(*arguments: str) -> None:
    uv = Path(sys.executable).parent / "uv"
    command = [uv, "pip", "compile", "--quiet", "--no-config", "--universal", "--no-annotate", "--no-header"]
    command += [f"--python-version={OLDEST_PYTHON}", *arguments]
    subprocess.run(command, cwd=HERE.parent, check=True)


def entry(package: dict[str, Any]) -> str:
    """One package's lines: name, version, marker, hashes."""
    marker = f" ; {package['marker']}" if "marker" in package else ""
    lines = [
        f"{package['name']}=={package['version']}{marker}",
        *(f"    --hash={h}" for h in hashes(package)),
    ]
    return " \\\n".join(lines) + "\n"


def hashes(package: dict[str, Any]) -> list[str]:
    files = [wheel for wheel in package.get("wheels", ()) if is_for_cpython(wheel["url"])]
    files = files or [package["sdist"]]
    return sorted({f"sha256:{file['hashes']['sha256']}" for file in files})


def is_for_cpython(url: str) -> bool:
    """Whether a wheel is for a CPython with the global lock, which is what is tested here."""
    _, python, abi, _ = url.rpartition("/")[2].rsplit("-", 3)
    return python.startswith(("py", "cp")) and not FREE_THREADED.fullmatch(abi)


if __name__ == "__main__":
    main("--upgrade" in sys.argv[1:])
