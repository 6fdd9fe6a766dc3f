"""`manage.py index DIR`: write the collection as static files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from pipeline.models import Document
from pipeline.web.collection import Row
from pipeline.web.collection_export import write
from queuemgr import StepFailed
from queuemgr.extend.cli import tracked

COULD_NOT_RUN = 3


class Command(BaseCommand):
    help = (
        "Write the collection to a directory: index.html, a sortable table with counts and failures by "
        "kind, and a copy of every report. Each file is replaced atomically. "
        "Exit codes: 0 written, 3 could not write."
    )

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("directory", type=Path, help="created if it does not exist")

    def handle(self, *args: Any, **options: Any) -> None:
        directory: Path = options["directory"]
        try:
            papers, pages = write(directory, with_progress)
        except StepFailed as error:
            raise CommandError(error.message, returncode=COULD_NOT_RUN) from None
        except OSError as error:
            raise CommandError(
                f"{directory} cannot be written: {error.strerror or error}", returncode=COULD_NOT_RUN
            ) from None
        written = f"{_counted(papers, 'paper')} on {_counted(pages, 'page')}"
        self.stdout.write(f"{written}: {directory / 'index.html'}")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def with_progress(rows: Iterable[Row]) -> Iterable[Row]:
    return tracked(rows, "writing", Document.objects.count)
