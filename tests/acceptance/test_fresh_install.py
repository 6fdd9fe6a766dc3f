"""A new environment has what the project declares or a lock names, and nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.compose_file import ROOT


@pytest.mark.slow_proof
def test_an_install_without_extras_analyses_the_samples(tmp_path: Path) -> None:
    """A new environment with what `pyproject.toml` declares and nothing else; no OCR, so no scanned page."""
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    versions = tmp_path / "versions.txt"
    locked = re.findall(r"^\S+==\S+", (ROOT / "locks" / "all.txt").read_text(), re.MULTILINE)
    versions.write_text("\n".join(locked))
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--constraint", versions, ROOT], check=True)
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("SLUICE_", "PYTHON"))}
    for name in ("DATABASE_URL", "BROKER_URL", "DJANGO_SETTINGS_MODULE"):
        inherited.pop(name, None)
    samples = [str(ROOT / "samples" / name) for name in ("author-year.pdf", "cjk.pdf", "two-column.pdf")]
    done = subprocess.run(
        [python, "manage.py", "up", *samples, "--drain"],
        env={**inherited, "SLUICE_DATA_DIR": str(tmp_path / "data")},
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((tmp_path / "data" / "files" / "reports").glob("*.md"))) == len(samples)


@pytest.mark.slow_proof
def test_a_file_that_is_not_the_locked_one_is_not_installed(tmp_path: Path) -> None:
    """By uv nor, after it, by pip; and the same lock without the change is installed."""
    locks, environment = tmp_path / "locks", tmp_path / "venv"
    shutil.copytree(ROOT / "locks", locks)
    entry = re.search(r"^vine==.*\n( +--hash=sha256:\w+.*\n)+", (locks / "all.txt").read_text(), re.MULTILINE)
    assert entry
    (locks / "right.txt").write_text(entry[0])
    (locks / "wrong.txt").write_text(re.sub("sha256:.{8}", "sha256:00000000", entry[0]))
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)

    def install(lock: str) -> int:
        return subprocess.run([locks / "install.sh", environment, lock], capture_output=True).returncode

    def installed() -> list[Path]:
        return list(environment.glob("lib/*/site-packages/vine"))

    assert install("wrong") != 0
    assert installed() == []
    assert install("right") == 0
    assert len(installed()) == 1


@pytest.mark.slow_proof
def test_the_bill_of_materials_is_what_the_image_installs(tmp_path: Path) -> None:
    """It is CycloneDX, which its own tool checks; each part has an address, and most have a licence."""
    places = [f"VENV={tmp_path / 'venv'}", f"OUT={tmp_path}", f"PYTHON={sys.executable}"]
    subprocess.run(["make", "sbom", *places], cwd=ROOT, check=True, capture_output=True)
    bill = json.loads((tmp_path / "sbom.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["name"] == "sluicegate"
    lines = re.findall(r"^(\S+==\S+(?: ; .*)?) \\$", (ROOT / "locks" / "image.txt").read_text(), re.MULTILINE)
    wanted = [r for r in map(Requirement, lines) if r.marker is None or r.marker.evaluate()]
    parts = {canonicalize_name(part["name"]): part for part in bill["components"]}
    assert {name: part["version"] for name, part in parts.items()} == {
        canonicalize_name(r.name): str(r.specifier).removeprefix("==") for r in wanted
    }
    assert all(part["purl"].startswith("pkg:") for part in parts.values())
    # Some name theirs in words only; the list of licences has those.
    assert len([name for name, part in parts.items() if not part.get("licenses")]) < 6
    assert " not stated" not in (tmp_path / "licences.txt").read_text().partition("The packages below")[0]
