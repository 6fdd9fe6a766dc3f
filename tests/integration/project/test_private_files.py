"""What an installation stores is for its owner only: new files, and those an earlier release made."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from queuemgr.base.private_files import tighten
from tests.compose_file import ROOT

SCRIPT = """
import subprocess, sys
from pathlib import Path
from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.management import call_command
call_command("migrate", verbosity=0)
default_storage.save("reports/one.md", ContentFile(b"text"))
from pipeline import files
(files.scratch() / "part").write_text("half")
subprocess.run([sys.executable, "-c", "open('of-a-child', 'w')"], cwd=settings.SLUICE_DATA_DIR, check=True)
"""


def for_others(directory: Path) -> Iterator[str]:
    for path in [directory, *directory.rglob("*")]:
        if path.stat().st_mode & 0o077:
            yield f"{path.relative_to(directory)} {path.stat().st_mode & 0o777:o}"


def run(directory: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("DATABASE_URL", "BROKER_URL")}
    environment |= {"SLUICE_DATA_DIR": str(directory), "DJANGO_SETTINGS_MODULE": "project.settings"}
    code = f"import django\ndjango.setup()\n{SCRIPT}"
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], env=environment, cwd=ROOT, check=True,
        preexec_fn=lambda: os.umask(0o022) and None,
    )  # fmt: skip


def test_nothing_a_process_of_ours_makes_can_be_read_by_others(tmp_path: Path) -> None:
    """The database, its log, stored files and unfinished ones, and what programs make that we start."""
    run(tmp_path / "new")
    made = {path.name for path in (tmp_path / "new").rglob("*")}
    assert {"sluice.sqlite3", "secret-key", "one.md", "part", "of-a-child"} <= made
    assert [*for_others(tmp_path / "new")] == []


def test_files_that_an_earlier_release_left_open_are_closed_at_the_next_start(tmp_path: Path) -> None:
    directory = tmp_path / "old"
    directory.mkdir()
    (directory / "files").mkdir()
    for name in ("files", "sluice.sqlite3", "theirs"):
        (directory / name).touch()
        (directory / name).chmod(0o755)
    run(directory)
    assert {name.split()[0] for name in for_others(directory)} == {"theirs"}


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.touch()
    target.chmod(0o644)
    link = tmp_path / "link"
    link.symlink_to(target)
    tighten([link, tmp_path / "missing"])
    assert target.stat().st_mode & 0o777 == 0o644
