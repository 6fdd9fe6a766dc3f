"""What is installed is locked by version and hash, from no particular index, for all that is asked for."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from locks.audit import COULD_NOT_ASK, VULNERABLE, Answer, read, summary
from locks.make_locks import LOCKS, is_for_cpython, lock
from tests.compose_file import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, GROUPS = PYPROJECT["project"], PYPROJECT["dependency-groups"]
ALPINE = "0d18d7f8d7910e2e0212f0f056b12f50bebc3abb7d88d2f7c7cb4c336fe4519a"
"""Of dist/cdn.min.js in the package @alpinejs/csp 3.17.4."""

ENTRY = re.compile(r"(?P<requirement>[^\\\n#]+?)(?P<hashes>(?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n")


def locked(name: str) -> dict[str, tuple[Requirement, set[str]]]:
    entries = [(Requirement(m["requirement"]), m["hashes"]) for m in ENTRY.finditer(lock(name).read_text())]
    return {canonicalize_name(r.name): (r, set(re.findall(r"sha256:\w+", hashes))) for r, hashes in entries}


def version(requirement: Requirement) -> str:
    (specifier,) = requirement.specifier
    assert specifier.operator == "=="
    return specifier.version


def wanted(name: str) -> Iterable[str]:
    """What pyproject.toml asks for, of which the lock of this name is made."""
    for argument in LOCKS[name]:
        option, _, value = argument.partition("=")
        if option == "pyproject.toml":
            yield from PROJECT["dependencies"]
        elif option == "--all-extras":
            yield from (text for extra in PROJECT["optional-dependencies"].values() for text in extra)
        else:
            yield from {"--extra": PROJECT["optional-dependencies"], "--group": GROUPS}[option][value]


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_is_nothing_but_exact_versions_with_hashes(name: str) -> None:
    assert re.sub(ENTRY, "", lock(name).read_text()).splitlines() == [
        "# Made by `make lock` from pyproject.toml; do not edit."
    ]
    assert all(version(requirement) and hashes for requirement, hashes in locked(name).values())


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_holds_a_version_that_is_allowed_of_all_that_is_asked_for(name: str) -> None:
    versions = {package: version(requirement) for package, (requirement, _) in locked(name).items()}
    texts = [Requirement(text) for text in wanted(name)]
    assert texts
    for requirement in texts:
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)]), requirement


@pytest.mark.parametrize("name", [name for name in LOCKS if name != "all"])
def test_all_locks_name_the_same_versions_and_files(name: str) -> None:
    everything = locked("all")
    for package, (requirement, hashes) in locked(name).items():
        if package in everything:
            assert (version(everything[package][0]), everything[package][1]) == (version(requirement), hashes)


def test_what_builds_an_sdist_is_locked_too() -> None:
    required = [Requirement(text) for text in PYPROJECT["build-system"]["requires"]]
    assert {r.name for r in required} <= set(locked("build"))


def test_nothing_is_installed_but_through_a_lock() -> None:
    """Each line that installs something else does so without its dependencies and isolated builds."""
    lines = [
        line
        for path in ("Makefile", "compose/Dockerfile", "locks/install.sh", ".ci/run")
        for line in (ROOT / path).read_text().replace("\\\n", " ").splitlines()
        if re.search(r"\bpip\b.* install ", line)
    ]
    assert len(lines) >= 4
    assert 'flags="--quiet --no-deps --require-hashes"\n' in (ROOT / "locks" / "install.sh").read_text()
    for line in lines:
        assert " $flags " in line or "--no-deps --no-build-isolation --editable ." in line


def test_no_page_tells_to_install_without_a_lock() -> None:
    """But for what goes into projects of others."""
    pages = [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md"), *(ROOT / "compose").glob("*.md")]
    command = re.compile(r"[$`] ?pip install (?!--require-hashes|'?(\.\./)?sluicegate|Django`)")
    told = {path.name: command.findall(path.read_text()) for path in pages}
    assert {name: lines for name, lines in told.items() if lines} == {}


@pytest.mark.parametrize(
    ("wheel", "kept"),
    [
        ("a-1-py3-none-any.whl", True),
        ("a-1-cp311-cp311-manylinux_2_28_x86_64.whl", True),
        ("a-1-cp310-abi3-macosx_11_0_arm64.whl", True),
        ("a-1-cp314-cp314t-win_amd64.whl", False),
        ("a-1-pp311-pypy311_pp73-win_amd64.whl", False),
    ],
)
def test_wheels_for_other_interpreters_are_not_locked(wheel: str, kept: bool) -> None:
    assert is_for_cpython(f"https://index.example.org/{wheel}") is kept


VULN = '{"id": "X-1", "fix_versions": ["2"]}'


@pytest.mark.parametrize(
    ("output", "code", "said"),
    [
        ('{"dependencies": [{"name": "a", "version": "1", "vulns": []}]}', 0, "none of 1 packages"),
        (
            f'{{"dependencies": [{{"name": "a", "version": "1", "vulns": [{VULN}]}}]}}',
            VULNERABLE, "a 1: X-1, fixed in 2",
        ),
        ('{"dependencies": [{"name": "a", "skip_reason": "gone"}]}', COULD_NOT_ASK, "1 of 1 packages: a: g"),
        ('{"dependencies": []}', COULD_NOT_ASK, "no route"),
        ("", COULD_NOT_ASK, "no route"),
        ("<html>", COULD_NOT_ASK, "no route"),
    ],
)  # fmt: skip
def test_a_package_that_nobody_could_be_asked_about_is_never_counted_as_good(
    output: str, code: int, said: str
) -> None:
    answer: Answer = read(output)
    assert answer.exit_code == code
    assert said in summary("service", answer, "Traceback\nno route")


def test_the_script_that_is_not_ours_is_as_it_was_released() -> None:
    script = ROOT / "queuemgr" / "web" / "static" / "queuemgr" / "alpine-csp.js"
    header, released = script.read_bytes().split(b"\n", 1)
    assert b"Alpine 3.17.4 " in header
    assert sha256(released).hexdigest() == ALPINE
    assert b"Permission is hereby granted" in script.with_suffix(".LICENSE.txt").read_bytes()


MADE_HERE = {".git", ".venv", "var", "build", "dist"}
NO_TEXT = {".pdf", ".png", ".pyc"}


def test_no_file_of_the_checkout_names_a_package_index() -> None:
    names = re.compile("py" + "pi.org|python" + "hosted|registry." + "npmjs", re.IGNORECASE)
    texts = list(_texts())
    assert {"tests", "bench", "proof", ".ci"} <= {path.relative_to(ROOT).parts[0] for path in texts}
    for path in texts:
        assert not names.search(path.read_text(errors="replace")), path


def _texts() -> Iterable[Path]:
    """All of the checkout that people wrote."""
    for entry in ROOT.iterdir():
        if entry.name not in MADE_HERE and not entry.name.endswith(("cache", ".egg-info", ".hypothesis")):
            files = entry.rglob("*") if entry.is_dir() else [entry]
            yield from (path for path in files if path.is_file() and path.suffix not in NO_TEXT)
