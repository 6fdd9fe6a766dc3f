"""A new environment has what the project declares or a lock names, and nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
