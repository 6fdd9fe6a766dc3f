"""Create documents and executions from user input; the same input twice is one document."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import Exists, OuterRef
from django.urls import reverse

from pipeline.models import FLOW, Document
from pipeline.steps.fetch.local_file import TOO_DEEP, UNREADABLE, FoundFile, files_in
from pipeline.steps.identify import Identifier, identify
from queuemgr import MAX_KEY, BadInput, Enqueued, NewExecution, QueueFull, atomically, enqueue_many
from queuemgr.extend.models import Execution

logger = logging.getLogger(__name__)

SETTLED_SECONDS = 2.0
"""A file in the inbox is used once it has not changed for this long: it may still be being copied."""


FLAGS = {"force_ocr": "read every page by OCR, those with a text layer too"}
"""What may be asked for a document."""

MOST_NAMED = 20
"""Files that are skipped, in the log of one look at the inbox; each look finds them again."""


def parse_item(item: str) -> NewExecution:
    """The execution of the document that an item, or a line of a list, names; writes nothing.

    Raises `BadInput` quoting what cannot be parsed.
    """
    text, flags = read_item(item)
    found = identify(text)
    return NewExecution(key_of(found), {"kind": found.kind, **flags}, found)


def parse_remote_item(item: str) -> NewExecution:
    """The same for input from the network, which may not name files of this machine."""
    new = parse_item(item)
    if new.item.kind == "file":
        raise BadInput("paths are not accepted here: give an arXiv id, a DOI or a URL")
    return new


def store_items(new: Iterable[NewExecution]) -> None:
    """Create the documents that were parsed; called in the transaction that inserts their executions."""
    register([each.item for each in new if each.item is not None])


def key_of(found: Identifier) -> str:
    """The document's key. The query of a URL, which may contain a signature, is left out, and a key that
    is too long is cut; a hash of the whole keeps such keys unique."""
    readable = found.key.partition("?")[0] if found.kind == "url" else found.key
    if readable == found.key and len(found.key) <= MAX_KEY:
        return found.key
    digest = hashlib.sha256(found.key.encode()).hexdigest()[:32]
    return f"{readable[: MAX_KEY - 33]}~{digest}"


def new_execution(key: str, kind: str) -> NewExecution:
    return NewExecution(key, {"kind": kind})


def register(items: Iterable[Identifier]) -> None:
    """Create documents without enqueueing them."""
    Document.objects.bulk_create(
        [Document(key=key_of(i), kind=i.kind, source=i.text) for i in items], ignore_conflicts=True
    )


def register_items(items: Iterable[str]) -> None:
    """Create the documents these items name; raises `BadInput` on the first that cannot be parsed."""
    register([identify(item_of(item)) for item in items])


def backfill(limit: int) -> int:
    """Enqueue at most `limit` documents that have no execution, oldest first; returns how many.

    Raises `QueueFull` with the number that fitted; the next call continues with the others.
    """
    register(inbox())
    _mark_enqueued()
    chosen = list(Document.objects.not_enqueued().order_by("pk")[:limit])
    return start(chosen).new


def _mark_enqueued(chosen: Sequence[Document] | None = None) -> None:
    """Update the flag of documents that have an execution, among these or (None) all."""
    executions = Execution.objects.filter(flow=FLOW, key=OuterRef("key"))
    flagless = Document.objects.filter(Exists(executions), enqueued=False)
    if chosen is not None:
        flagless = flagless.filter(pk__in=[document.pk for document in chosen])
    flagless.update(enqueued=True)


def start(documents: Iterable[Document]) -> Enqueued:
    """Enqueue documents, each with its flag in one transaction. Raises `QueueFull` once as many as the
    queue accepts are; the others stay as they are."""
    chosen = list(documents)
    intakes = [new_execution(document.key, document.kind) for document in chosen]

    def enter() -> Enqueued:
        try:
            enqueued = enqueue_many(FLOW, intakes)
        except QueueFull:
            _mark_enqueued(chosen)
            raise
        _mark_enqueued(chosen)
        return enqueued

    return atomically(enter)


def inbox() -> list[Identifier]:
    """The PDFs in the inbox that no longer change; regular files, which lie in it themselves."""
    found = [file for file in in_inbox() if _is_settled(file)]
    skipped = [f"{file.path} is {file.refusal}" for file in found if file.refusal]
    good: list[Identifier] = []
    for file in found:
        if not file.refusal:
            try:
                good.append(identify(str(file.path)))
            except BadInput as error:  # such as a name that the database cannot store
                skipped.append(str(error))
    for each in skipped[:MOST_NAMED]:
        logger.warning("file in the inbox skipped: %s", each)
    if (others := len(skipped) - MOST_NAMED) > 0:
        logger.warning("%s others in the inbox are skipped, too", others)
    return good


def in_inbox() -> list[FoundFile]:
    """Everything in the inbox that is called a PDF, also what is refused; and folders that are not read."""
    folder: Path = settings.SLUICE_INBOX
    folder.mkdir(parents=True, exist_ok=True)
    return [file for file in files_in(folder) if _is_wanted(file)]


def _is_wanted(file: FoundFile) -> bool:
    return file.path.suffix.lower() == ".pdf" or file.refusal in (TOO_DEEP, UNREADABLE)


def folder_of(path: Path) -> Path | None:
    """The inbox, if this is a path in it: there a file must lie itself. A person may name any other."""
    inbox = Path(settings.SLUICE_INBOX).absolute()
    return next((folder for folder in (inbox, inbox.resolve()) if path.is_relative_to(folder)), None)


def _is_settled(file: FoundFile) -> bool:
    """Whether a file has not been written to lately."""
    return time.time() - file.modified > SETTLED_SECONDS


class Item(NamedTuple):
    """What names a document, and what is asked for it: `{"force_ocr": True}`, or nothing."""

    text: str
    flags: dict[str, bool]


def item_of(line: str) -> str:
    """What names the document on a line. Raises `BadInput`."""
    return read_item(line).text


def read_item(line: str) -> Item:
    """The item on a line: JSON with `id`, `doi`, `url`, `path` or `source`, and perhaps `force_ocr`; or the
    bare item.

    Raises `BadInput`.
    """
    if not line.lstrip().startswith("{"):
        return Item(line.strip(), {})
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"not JSON: {error}") from None
    for name in ("source", "id", "arxiv_id", "arxiv", "doi", "url", "path"):
        if isinstance(record.get(name), str) and record[name].strip():
            return Item(str(record[name]), _flags(record))
    raise BadInput('it has no "id", "doi", "url", "path" or "source"')


def _flags(record: dict[str, Any]) -> dict[str, bool]:
    """Those of a record that are on."""
    for name in FLAGS.keys() & record.keys():
        if not isinstance(record[name], bool):
            raise BadInput(f'"{name}" must be true or false')
    return {name: True for name in FLAGS if record.get(name)}


def link(key: str) -> str:
    """The admin page of a document."""
    pk = Document.objects.filter(key=key).values_list("pk", flat=True).first()
    return reverse("admin:pipeline_document_change", args=[pk]) if pk else ""
