"""What others put into the folder of files is read only where it is a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pipeline import files, storage
from queuemgr import StepFailed


@pytest.mark.parametrize("trick", ["link", "pipe"])
def test_a_link_or_a_pipe_among_the_files_is_not_read(trick: str, settings: Any, tmp_path: Path) -> None:
    secret, folder = tmp_path / "secret", Path(settings.MEDIA_ROOT)
    secret.write_bytes(b"the password")
    folder.mkdir(parents=True, exist_ok=True)
    if trick == "link":
        (folder / "x.pdf").symlink_to(secret)
    else:
        os.mkfifo(folder / "x.pdf")
    stored = type("Field", (), {"name": "x.pdf"})()
    with pytest.raises(StepFailed) as failed, storage.opened("x.pdf"):
        pass
    assert failed.value.kind == "refused_file" and "password" not in failed.value.message
    with pytest.raises(StepFailed), files.on_disk(stored):
        pass


def test_a_file_below_a_folder_that_is_a_link_is_read(settings: Any, tmp_path: Path) -> None:
    """An operator may have put a folder of files on another disk."""
    folder, disk = Path(settings.MEDIA_ROOT), tmp_path / "disk"
    folder.mkdir(parents=True, exist_ok=True)
    disk.mkdir()
    (disk / "a.pdf").write_bytes(b"bytes")
    (folder / "pdf").symlink_to(disk)
    with storage.opened("pdf/a.pdf") as stored:
        assert stored.read() == b"bytes"
