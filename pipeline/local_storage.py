"""The storage on a local disk: it reads regular files, and no links, should others write to its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.files import File
from django.core.files.storage import FileSystemStorage

from pipeline.steps.fetch.local_file import open_file


class LocalStorage(FileSystemStorage):
    """Django's, but that a link or a pipe in the place of a file is refused. Its folders may be links."""

    def open(self, name: str, mode: str = "rb") -> File[Any]:
        if mode != "rb":
            return super().open(name, mode)
        path = self.path(name)
        return File(open_file(Path(path)), path)
