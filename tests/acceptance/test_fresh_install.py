"""An install without the extras of tests runs the samples to their reports."""

from __future__ import annotations

import os
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
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", ROOT],
        check=True,
    )
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
