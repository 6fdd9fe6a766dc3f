"""A new environment has what the project declares or a lock names, and nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.acceptance.adopter_project import Project, wait_until
from tests.compose_file import ROOT
from tests.requirements import GROUPS, PROJECT


@pytest.mark.slow_proof
def test_what_is_declared_for_papers_analyses_the_samples(tmp_path: Path) -> None:
    """A new environment with the distribution, two of its extras, and the group `papers`; no OCR, so no
    scanned page, and nothing that only tests need."""
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    versions = tmp_path / "versions.txt"
    locked = re.findall(r"^\S+==\S+", (ROOT / "locks" / "all.txt").read_text(), re.MULTILINE)
    versions.write_text("\n".join(locked))
    wanted = [f"{ROOT}[local,web]", *GROUPS["papers"]]
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--constraint", versions, *wanted], check=True)
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
def test_the_lowest_versions_that_are_allowed_run_tasks_and_serve_pages(tmp_path: Path, wheel: Path) -> None:
    """Of what the distribution itself names, extras included; what these require is as new as it may be."""
    environment, shop, press = (tmp_path / name for name in ("venv", "shop", "press"))
    venv.create(environment, symlinks=True)
    uv = [Path(sys.executable).parent / "uv", "pip", "install", "--quiet", "--no-config"]
    lowest = ["--resolution", "lowest-direct", "--python", environment / "bin" / "python"]
    subprocess.run([*uv, *lowest, f"{wheel}[{','.join(PROJECT['optional-dependencies'])}]"], check=True)
    shop.mkdir()
    run_the_first_task(Project(shop, environment))
    shutil.copytree(ROOT / "tests" / "other_application", press)
    settings = {"PRESS_DIR": str(press), "DJANGO_SETTINGS_MODULE": "press.settings", "PYTHONPATH": str(press)}
    subprocess.run(
        [environment / "bin" / "python", "-W", "ignore", "look_around.py"],
        cwd=press, env={**os.environ, **settings}, check=True, capture_output=True,
    )  # fmt: skip


def run_the_first_task(project: Project) -> None:
    worker = project.start("worker", "manage.py", "worker", "--migrate")
    try:
        wait_until("it is ready", lambda: "ready." in worker.output)
        call = 'from mail.tasks import send; print(send.enqueue("a").result(timeout=60))'
        assert project.run("manage.py", "shell", "-v", "0", "-c", call) == "{'sent': 5}\n"
    finally:
        worker.stop()
    assert "Traceback" not in worker.output


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
