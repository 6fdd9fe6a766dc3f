"""Create documents and executions from user input; the same input twice is one document."""

from __future__ import annotations

import json
import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from django.conf import settings
from django.db.models import Exists, OuterRef
from django.urls import reverse

from pipeline.config import pipeline_settings
from pipeline.execution_keys import DIGEST, digest
from pipeline.models import FLOW, Document, ExtractionSchema
from pipeline.rereading import by_ocr, of_known
from pipeline.steps.fetch.local_file import TOO_DEEP, UNREADABLE, FoundFile, files_in
from pipeline.steps.identify import Identifier, identify
from queuemgr import MAX_KEY, BadInput, Enqueued, NewExecution, QueueFull, atomically, enqueue_many
from queuemgr.extend.models import Execution

if TYPE_CHECKING:
    from pipeline.steps.analyse.custom_schema import CustomSchema

logger = logging.getLogger(__name__)

SETTLED_SECONDS = 2.0
"""A file in the inbox is used once it has not changed for this long: it may still be being copied."""


FLAGS = {
    "force_ocr": "read every page by OCR, those with a text layer too",
    "lookup_references": "look up its references by their DOIs, at Crossref or OpenAlex",
}
"""What may be asked for a document."""

Flags = Mapping[Any, bool]
"""Which of these are asked for."""

FILES = {"schema": "a JSON Schema of what is extracted from the paper, too: docs/papers.md"}
"""What may be given for a document as a file."""

MOST_NAMED = 20
"""Files that are skipped, in the log of one look at the inbox; each look finds them again."""


def parse_item(item: str) -> NewExecution:
    """The execution of the document that an item, or a line of a list, names; writes nothing.

    Raises `BadInput` quoting what cannot be parsed.
    """
    text, flags, schema, is_key = read_item(item)
    if is_key:
        new = replace(of_known(text), item=NewPaper())
    else:
        found = identify(text)
        new = NewExecution(key_of(found), {"kind": found.kind}, NewPaper(found))
    new = with_flags(new, flags)
    return new if schema is None else _with_schema(new, _read(schema))


def with_flags(new: NewExecution, flags: Flags) -> NewExecution:
    """The same with what is asked for it. Raises `BadInput`."""
    return by_ocr(replace(new, payload={**new.payload, **flags}))


class NewPaper(NamedTuple):
    """What is stored with an execution: the document, and the schema that was given for it."""

    identifier: Identifier | None = None
    """None for a document that is there."""
    schema: CustomSchema | None = None


def with_file(new: NewExecution, name: str, content: bytes) -> NewExecution:
    """The same with what a file asks for it, where its own line does not. Raises `BadInput`."""
    if "schema" in new.payload:
        return new
    return _with_schema(new, _schema_of(content))


@lru_cache(maxsize=4)
def _schema_of(content: bytes) -> CustomSchema:
    """Once for all items of a command."""
    return _read(content)


def _read(given: object) -> CustomSchema:
    # Imported here: only who gives a schema needs what reads it.
    from pipeline.steps.analyse.custom_schema import read_schema

    return read_schema(given)


def _with_schema(new: NewExecution, schema: CustomSchema) -> NewExecution:
    payload, item = {**new.payload, "schema": schema.digest}, new.item._replace(schema=schema)
    return replace(new, payload=payload, item=item)


def parse_remote_item(item: str) -> NewExecution:
    """The same for input from the network, which may not name files of this machine."""
    new = parse_item(item)
    if new.item.identifier is not None and new.item.identifier.kind == "file":
        raise BadInput("paths are not accepted here: give an arXiv id, a DOI or a URL")
    return new


def store_items(new: Sequence[NewExecution]) -> None:
    """Create the documents that were parsed, and their schemas: held, until they have executions. What is
    asked for one stays with it until then. Called in the transaction that inserts executions, or to hold
    them."""
    items = [each for each in new if each.item is not None]
    made = [_document(each) for each in items if each.item.identifier and "document" not in each.payload]
    _create(made, [str(each.payload["document"]) for each in new if "document" in each.payload])
    _ask(made)
    store_schemas(each.item.schema for each in items)


def _create(made: Sequence[Document], known: Sequence[str]) -> None:
    """Those that are not there, again those that retention deleted before they were locked; and keep what
    is known."""
    Document.objects.bulk_create(made, ignore_conflicts=True)
    wanted = [] if pipeline_settings().keep_documents else made
    kept = _keep([*known, *(each.key for each in wanted)])
    if missing := [each for each in wanted if each.key not in kept]:
        _create(missing, [])


def _keep(keys: Sequence[str]) -> set[str]:
    """Hold off retention, which deletes none for which there is an execution, until this one is there;
    returns those that are there."""
    locked = Document.objects.select_for_update().filter(key__in=keys).order_by("pk")
    return set(locked.values_list("key", flat=True)) if keys else set()


def hold(new: Sequence[NewExecution]) -> None:
    """Create the documents until a backfill. Raises `BadInput` for one that has been read."""
    for each in new:
        if "document" in each.payload:
            raise BadInput(
                f"{each.payload['document'][:60]!r} has been read: enqueue it to have it read again"
            )
    store_items(new)


def _document(new: NewExecution) -> Document:
    """Held, with what its execution is to have that others have not."""
    found = new.item.identifier
    payload = {name: value for name, value in new.payload.items() if name != "kind"}
    rank = {} if new.priority is None else {"priority": new.priority}
    asked = ({"payload": payload} if payload else {}) | rank
    return Document(key=new.key, kind=found.kind, source=found.text, asked=asked)


def _ask(made: Iterable[Document]) -> None:
    """Have documents that were held before have what is asked for them now."""
    keys: dict[str, list[str]] = defaultdict(list)
    for document in made:
        if document.asked:
            keys[json.dumps(document.asked, sort_keys=True)].append(document.key)
    for asked, some in keys.items():
        Document.objects.filter(key__in=some, enqueued=False).update(asked=json.loads(asked))


def store_schemas(schemas: Iterable[CustomSchema | None]) -> None:
    """Create those that are not stored."""
    by_digest = {schema.digest: schema.text for schema in schemas if schema is not None}
    ExtractionSchema.objects.bulk_create(
        [ExtractionSchema(digest=digest, text=text) for digest, text in by_digest.items()],
        ignore_conflicts=True,
    )


def key_of(found: Identifier) -> str:
    """The document's key. The query of a URL, which may contain a signature, is left out, and a key that
    is too long is cut; a hash of the whole keeps such keys unique."""
    readable = found.key.partition("?")[0] if found.kind == "url" else found.key
    if readable == found.key and len(found.key) <= MAX_KEY:
        return found.key
    return f"{readable[: MAX_KEY - DIGEST - 1]}~{digest(found.key)}"


def new_execution(document: Document) -> NewExecution:
    """Its execution, with what is asked for it."""
    asked = document.asked or {}
    payload = {"kind": document.kind, **asked.get("payload", {})}
    return NewExecution(document.key, payload, priority=asked.get("priority"))


def register(items: Iterable[Identifier]) -> None:
    """Create documents without enqueueing them."""
    Document.objects.bulk_create(
        [Document(key=key_of(i), kind=i.kind, source=i.text) for i in items], ignore_conflicts=True
    )


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
    intakes = list(map(new_execution, chosen))

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
    schema: Any = None
    is_key: bool = False


def read_item(line: str) -> Item:
    """The item on a line: JSON with `id`, `doi`, `url`, `path` or `source`, or with the key of a
    `document` that is there, and perhaps `force_ocr` and `schema`; or the bare item.

    Raises `BadInput`.
    """
    if not line.lstrip().startswith("{"):
        return Item(line.strip(), {})
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise BadInput(f"not JSON: {error}") from None
    except (ValueError, RecursionError):
        raise BadInput("not JSON: nested too deeply, or with a number of thousands of digits") from None
    for name in ("source", "id", "arxiv_id", "arxiv", "doi", "url", "path", "document"):
        if isinstance(record.get(name), str) and record[name].strip():
            return Item(str(record[name]), _flags(record), record.get("schema"), name == "document")
    raise BadInput('it has no "id", "doi", "url", "path" or "source"')


def _flags(record: dict[str, Any]) -> dict[str, bool]:
    """Those of a record that are on."""
    for name in FLAGS.keys() & record.keys():
        if not isinstance(record[name], bool):
            raise BadInput(f'"{name}" must be true or false')
    return {name: True for name in FLAGS if record.get(name)}


def link(key: str) -> str:
    """The admin page of a document."""
    pk = Document.objects.of_execution(key).values_list("pk", flat=True).first()
    return reverse("admin:pipeline_document_change", args=[pk]) if pk else ""
