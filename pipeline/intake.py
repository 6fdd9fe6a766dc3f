"""From what a person typed to a Document and its execution, the same thing typed twice being one."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Iterable
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.urls import reverse

from pipeline.models import FLOW, Document
from pipeline.steps.identify import Identifier, identify
from queuemgr import MAX_KEY, BadInput, Enqueued, NewExecution, enqueue_many
from queuemgr.extend.models import Execution

logger = logging.getLogger(__name__)

SETTLED_SECONDS = 2.0
"""A file in the inbox is taken once it has not changed for so long: it may still be copied."""


def parse_item(item: str) -> NewExecution:
    """Know the document an item, or a line of a list, names.

    Raises `BadInput` quoting what cannot be understood.
    """
    found = identify(item_of(item))
    register([found])
    return intake_of(key_of(found), found.kind)


def parse_remote_item(item: str) -> NewExecution:
    """The same for an item that came over the network: a path would name a file of this machine."""
    if identify(item_of(item)).kind == "file":
        raise BadInput("a path names a file of the server: give an arXiv id, a DOI or a URL")
    return parse_item(item)


def key_of(found: Identifier) -> str:
    """The document's key. A URL's query, which may hold a signature, is left out, and a key too long
    for a row is cut; both are told apart by the hash of the whole."""
    readable = found.key.partition("?")[0] if found.kind == "url" else found.key
    if readable == found.key and len(found.key) <= MAX_KEY:
        return found.key
    digest = hashlib.sha256(found.key.encode()).hexdigest()[:32]
    return f"{readable[: MAX_KEY - 33]}~{digest}"


def intake_of(key: str, kind: str) -> NewExecution:
    return NewExecution(key, {"kind": kind})


def register(items: Iterable[Identifier]) -> None:
    """Remember documents without starting them."""
    Document.objects.bulk_create(
        [Document(key=key_of(i), kind=i.kind, source=i.text) for i in items], ignore_conflicts=True
    )


def register_items(items: Iterable[str]) -> None:
    """Remember what these items name; raises `BadInput` on the first that cannot be understood."""
    register([identify(item_of(item)) for item in items])


def backfill(limit: int) -> int:
    """Make executions of at most `limit` known documents, oldest first; returns how many."""
    register(inbox())
    _mark_begun()
    chosen = list(Document.objects.not_under_way().order_by("pk")[:limit])
    return start(chosen).new


def _mark_begun() -> None:
    """Documents enqueued by name leave the index of those not under way."""
    begun = Execution.objects.filter(flow=FLOW, key=OuterRef("key"))
    Document.objects.filter(Exists(begun), begun=False).update(begun=True)


def start(documents: Iterable[Document]) -> Enqueued:
    """Enqueue known documents."""
    chosen = list(documents)
    intakes = [intake_of(document.key, document.kind) for document in chosen]
    with transaction.atomic():
        chosen_ids = [document.pk for document in chosen]
        Document.objects.filter(pk__in=chosen_ids).update(begun=True)
        return enqueue_many(FLOW, intakes)


def inbox() -> list[Identifier]:
    """What PDFs lie in the inbox and have come to rest."""
    folder: Path = settings.SLUICE_INBOX
    folder.mkdir(parents=True, exist_ok=True)
    found = (path for path in sorted(folder.rglob("*")) if path.suffix.lower() == ".pdf")
    return list(filter(None, (_named(path) for path in found if _at_rest(path))))


def _named(path: Path) -> Identifier | None:
    """The file as an identifier; one whose name no row can hold stays where it is, and is named."""
    try:
        return identify(str(path))
    except BadInput as error:
        logger.warning("left in the inbox: %s", error)
        return None


def _at_rest(path: Path) -> bool:
    """A file nobody wrote to lately. It may also be gone by now."""
    try:
        return path.is_file() and time.time() - path.stat().st_mtime > SETTLED_SECONDS
    except FileNotFoundError:
        return False


def item_of(line: str) -> str:
    """The item on a line: JSON with `id`, `doi`, `url`, `path` or `source`, or the bare item.

    Raises `BadInput`.
    """
    if not line.lstrip().startswith("{"):
        return line.strip()
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"not JSON: {error}") from None
    for name in ("source", "id", "arxiv_id", "arxiv", "doi", "url", "path"):
        if isinstance(record.get(name), str) and record[name].strip():
            return str(record[name])
    raise BadInput('no "id", "doi", "url", "path" or "source" in it')


def link(key: str) -> str:
    """The admin page of a document."""
    pk = Document.objects.filter(key=key).values_list("pk", flat=True).first()
    return reverse("admin:pipeline_document_change", args=[pk]) if pk else ""
