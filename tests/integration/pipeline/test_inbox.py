"""The inbox: regular files that lie in it themselves are read, whatever else somebody puts there is named."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline import intake
from pipeline.doctor import _inbox
from pipeline.models import Document
from pipeline.steps.fetch import local_file
from pipeline.steps.fetch.fetch import FetchOptions, adopt
from queuemgr import StepFailed

pytestmark = pytest.mark.django_db

SECRET = b"%PDF-the-password-of-the-superuser"

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices and gives files away")


@pytest.fixture
def inbox(tmp_path: Path, settings: Any) -> Path:
    folder = tmp_path / "inbox"
    folder.mkdir()
    (tmp_path / "secret.pdf").write_bytes(SECRET)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "b.pdf").write_bytes(SECRET)
    settings.SLUICE_INBOX = folder
    return folder


def link(inbox: Path) -> None:
    (inbox / "x.pdf").symlink_to(inbox.parent / "secret.pdf")


def link_to_nothing(inbox: Path) -> None:
    (inbox / "x.pdf").symlink_to("nowhere.pdf")


def link_within(inbox: Path) -> None:
    (inbox / "real.txt").write_bytes(SECRET)
    (inbox / "x.pdf").symlink_to("real.txt")


def folder_link(inbox: Path) -> None:
    (inbox / "x.pdf").symlink_to(inbox.parent / "outside")


def pipe(inbox: Path) -> None:
    os.mkfifo(inbox / "x.pdf")


def bound_socket(inbox: Path) -> None:
    here = os.getcwd()
    os.chdir(inbox)  # the path of a socket has a hundred characters at most
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("x.pdf")
    finally:
        os.chdir(here)


def device(inbox: Path) -> None:
    os.mknod(inbox / "x.pdf", 0o020644, os.makedev(1, 5))


def hard_link(inbox: Path) -> None:
    os.chown(inbox.parent / "secret.pdf", 4321, 4321)
    os.link(inbox.parent / "secret.pdf", inbox / "x.pdf")


TRICKS: dict[Callable[[Path], None], str] = {
    link: "a link",
    link_to_nothing: "a link",
    link_within: "a link",
    folder_link: "a link",
    pipe: "a named pipe",
    bound_socket: "a socket",
    device: "a device",
    hard_link: "another owner",
}

ALL_TRICKS = [
    pytest.param(trick, marks=root_only if trick in (device, hard_link) else ()) for trick in TRICKS
]


def settle(inbox: Path) -> None:
    """As if all of it had lain there for a minute."""
    for path in inbox.rglob("*"):
        os.utime(path, (time.time() - 60,) * 2, follow_symlinks=False)


@pytest.mark.parametrize("trick", ALL_TRICKS)
def test_what_is_no_file_of_the_inbox_is_named_and_never_read(
    trick: Callable[[Path], None], inbox: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trick(inbox)
    (inbox / "good.pdf").write_bytes(SECRET)
    settle(inbox)
    assert [Path(found.value).name for found in intake.inbox()] == ["good.pdf"]
    assert f"x.pdf is {TRICKS[trick]}" in caplog.text.replace("another name of a file of ", "")
    said = _inbox()
    assert said.level == "note" and "x.pdf" in said.what


@pytest.mark.parametrize("trick", ALL_TRICKS)
def test_what_took_the_place_of_a_file_of_the_inbox_is_not_opened(
    trick: Callable[[Path], None], inbox: Path, tmp_path: Path
) -> None:
    """It was a file when the document was made."""
    trick(inbox)
    with pytest.raises(StepFailed) as failed:
        adopted(inbox / "x.pdf", tmp_path)
    assert failed.value.kind == "refused_file" and TRICKS[trick] in failed.value.message
    assert "superuser" not in failed.value.message


def adopted(path: Path, tmp_path: Path) -> object:
    return adopt(path, tmp_path, FetchOptions(), within=intake.folder_of(path))


def test_a_folder_of_the_inbox_that_became_a_link_leads_nowhere(inbox: Path, tmp_path: Path) -> None:
    (inbox / "sub").symlink_to(tmp_path / "outside")
    with pytest.raises(StepFailed) as failed:
        adopted(inbox / "sub" / "b.pdf", tmp_path)
    assert failed.value.kind == "refused_file" and "below a link (sub)" in failed.value.message


def test_files_of_the_inbox_and_of_folders_in_it_are_read(inbox: Path, tmp_path: Path) -> None:
    (inbox / "sub").mkdir()
    for path in (inbox / "a.pdf", inbox / "sub" / "b.pdf"):
        path.write_bytes(SECRET)
    settle(inbox)
    intake.register(intake.inbox())
    assert Document.objects.count() == 2
    for document in Document.objects.all():
        assert adopted(Path(document.source), tmp_path)
    assert _inbox().level == "good"


@pytest.mark.parametrize("trick", [link, pipe, bound_socket])
def test_a_file_that_a_person_names_is_a_regular_one_too(
    trick: Callable[[Path], None], inbox: Path, tmp_path: Path
) -> None:
    trick(inbox)
    with pytest.raises(StepFailed) as failed, local_file.open_file(inbox / "x.pdf"):
        pass
    assert failed.value.kind == "refused_file"


def test_folders_in_folders_are_read_to_a_bound_and_named_beyond_it(
    inbox: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A process has a thousand descriptors, and Python as many levels of calls."""
    top, here = os.getcwd(), inbox
    os.chdir(inbox)
    try:
        for number in range(60):
            os.mkdir("d")
            os.chdir("d")
            if number + 1 in (local_file.MOST_LEVELS, local_file.MOST_LEVELS + 1):
                Path(f"{number + 1}.pdf").write_bytes(SECRET)
    finally:
        os.chdir(top)
    for _ in range(local_file.MOST_LEVELS + 1):
        here /= "d"
    for path in (here.parent / f"{local_file.MOST_LEVELS}.pdf", here):
        os.utime(path, (time.time() - 60,) * 2)
    assert [Path(found.value).name for found in intake.inbox()] == [f"{local_file.MOST_LEVELS}.pdf"]
    assert f"{here} is {local_file.TOO_DEEP}" in caplog.text
    assert local_file.TOO_DEEP in _inbox().what


def test_a_pipe_that_took_the_place_of_a_folder_is_not_waited_for(
    inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (inbox / "sub").mkdir()
    (inbox / "good.pdf").write_bytes(SECRET)
    settle(inbox)
    real = os.open

    def swapped(name: Any, flags: int, *args: Any, **how: Any) -> int:
        if name == "sub":
            (inbox / "sub").rmdir()
            os.mkfifo(inbox / "sub")
        return real(name, flags, *args, **how)

    monkeypatch.setattr(os, "open", swapped)
    assert [Path(found.value).name for found in intake.inbox()] == ["good.pdf"]


@pytest.mark.parametrize("refusing", ["open", "stat", "listdir"])
def test_a_folder_of_a_stranger_keeps_no_other_file_from_being_read(
    refusing: str, inbox: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (inbox / "a").mkdir()
    for path in (inbox / "a" / "x.pdf", inbox / "good.pdf"):
        path.write_bytes(SECRET)
    settle(inbox)
    real, folder = getattr(os, refusing), (inbox / "a").stat().st_ino

    def refuse(what: Any, *args: Any, **how: Any) -> Any:
        is_it = os.fstat(what).st_ino == folder if isinstance(what, int) else what in ("x.pdf", "a")
        if is_it and (refusing != "stat" or what == "x.pdf"):
            raise PermissionError(13, "Permission denied", "x")
        return real(what, *args, **how)

    monkeypatch.setattr(os, refusing, refuse)
    assert [Path(found.value).name for found in intake.inbox()] == ["good.pdf"]
    assert f"{inbox / 'a'} is {local_file.UNREADABLE}" in caplog.text


def test_a_thousand_refused_files_are_not_a_thousand_lines_a_look(
    inbox: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(500):
        (inbox / f"{number}.pdf").symlink_to("nowhere")
        (inbox / f"\x1b{number}.pdf").write_bytes(SECRET)
    settle(inbox)
    assert intake.inbox() == []
    assert len(caplog.records) == intake.MOST_NAMED + 1
    assert "980 others in the inbox are skipped, too" in caplog.text
