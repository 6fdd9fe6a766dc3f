"""`manage.py papers export`: papers and their references for other programs."""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.models import QuerySet

from pipeline.bibliography import FORMATS, written
from pipeline.models import Document
from pipeline.web.collection_export import replaced_file
from pipeline.web.collection_view import CollectionQuery
from queuemgr import StepFailed
from queuemgr.extend.cli import shows_progress, tracked
from queuemgr.extend.models import statuses

COULD_NOT_RUN = 3

EXAMPLES = """
examples:
  papers export --format bibtex -o papers.bib                 every paper
  papers export --format ris --references arxiv:2101.00001    one, and what it cites, on standard output
  papers export --format csl-json --status done --query On -o papers.json
  papers export --format jsonl -o texts.jsonl                 texts with the spans of their pages

exit codes: 0 written, 3 could not write or read (with the reason), 130 interrupted
a file is replaced when it is complete, so no reader sees a partial one
"""


class Command(BaseCommand):
    help = "Papers for programs that manage literature, and for corpora of text."

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True)
        export = commands.add_parser(
            "export", help="BibTeX, RIS, CSL-JSON, or texts as JSON Lines", epilog=EXAMPLES,
            formatter_class=RawDescriptionHelpFormatter,
        )  # fmt: skip
        export.add_argument("keys", nargs="*", metavar="KEY", help="only these papers; without one, all")
        export.add_argument("--format", required=True, choices=FORMATS, help="what is written")
        export.add_argument("--status", default="", choices=statuses(), help="only papers of this status")
        export.add_argument("--query", default="", help="only those whose key or title begins so")
        export.add_argument("--references", action="store_true", help="what the papers cite, too")
        export.add_argument("-o", "--output", type=Path, help="the file; without one, standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        rows, output = chosen(options), options["output"]
        pieces = written(
            rows, options["format"], references=options["references"],
            each=lambda documents: iter(tracked(counted(documents, self), "exporting", rows.count)),
        )  # fmt: skip
        self.count = 0
        try:
            self.write(pieces, output)
        except StepFailed as error:
            raise CommandError(error.message, returncode=COULD_NOT_RUN) from None
        except OSError as error:
            raise CommandError(
                f"{output} cannot be written: {error.strerror or error}", returncode=COULD_NOT_RUN
            ) from None
        if not shows_progress():
            noun = "paper" if self.count == 1 else "papers"
            self.stderr.write(f"{self.count:,} {noun} exported")  # standard output may be a pipe

    def write(self, pieces: Iterable[str], output: Path | None) -> None:
        if output is None:
            for piece in pieces:
                self.stdout.write(piece, ending="")
            return
        with replaced_file(output) as file:
            for piece in pieces:
                file.write(piece.encode())


def counted(documents: Iterable[Document], command: Command) -> Iterator[Document]:
    for document in documents:
        command.count += 1
        yield document


def chosen(options: Any) -> QuerySet[Document]:
    """The papers that the options name. Raises `CommandError` for a key that none has."""
    query = CollectionQuery({"status": options["status"], "q": options["query"]})
    rows = query.documents(is_large=True)
    if keys := options["keys"]:
        missing = sorted(set(keys) - set(Document.objects.filter(key__in=keys).values_list("key", flat=True)))
        if missing:
            raise CommandError(f"there is no paper {missing[0]!r}", returncode=COULD_NOT_RUN)
        rows = rows.filter(key__in=keys)
    return rows
