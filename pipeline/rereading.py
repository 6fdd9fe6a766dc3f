"""Papers that are read again, every page by OCR: by an execution beside the one that read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pipeline.execution_keys import key_again
from pipeline.models import FLOW, Document
from queuemgr import BadInput, NewExecution
from queuemgr.extend.models import FINAL, Execution

KNOWN = ("llm_chunks", "llm_tokens", "llm_schema_tokens")
"""What the first reading left about what an analysis takes: by it the second is estimated."""


def by_ocr(new: NewExecution) -> NewExecution:
    """This, or where its paper was read without OCR of every page, what reads it again: the same wish twice
    is one execution. Raises `BadInput` for a paper that has not been read to its end."""
    if not new.payload.get("force_ocr") or "document" in new.payload:
        return new
    return _again(new, _first((new.key,)).get(new.key), _pages((new.key,)).get(new.key))


def papers_by_ocr(keys: Sequence[str]) -> tuple[list[NewExecution], list[str]]:
    """What reads these documents again, and why some are not."""
    kinds = dict(Document.objects.filter(key__in=keys).values_list("key", "kind"))
    first, pages = _first(keys), _pages(keys)
    new, refused = [], []
    for key in keys:
        wanted = NewExecution(key, {"kind": kinds.get(key, ""), "force_ocr": True})
        try:
            new.append(_again(wanted, first.get(key), pages.get(key)))
        except BadInput as error:
            refused.append(str(error))
    return new, refused


def _first(keys: Iterable[str]) -> dict[str, Execution]:
    rows = Execution.objects.filter(flow=FLOW, key__in=keys).only("key", "state", "payload", "context")
    return {row.key: row for row in rows}


def _pages(keys: Iterable[str]) -> dict[str, int | None]:
    return dict(Document.objects.filter(key__in=keys).values_list("key", "pages"))


def _again(new: NewExecution, first: Execution | None, pages: int | None) -> NewExecution:
    if first is None or first.payload.get("force_ocr"):
        return new
    if first.state not in FINAL:
        raise BadInput(
            f"{new.key[:60]!r} is being read without: ask for OCR of every page when that has ended"
        )
    expected = {name: first.context[name] for name in KNOWN if first.context.get(name)}
    expected |= {"pages_expected": pages} if pages else {}
    payload = {**first.payload, **new.payload, "document": new.key, **expected}
    return replace(new, key=key_again(new.key), payload=payload)


def of_known(key: str) -> NewExecution:
    """The execution of a document that is there. Raises `BadInput`."""
    kind = Document.objects.filter(key=key.replace("\x00", "")).values_list("kind", flat=True).first()
    if kind is None:
        raise BadInput(f"there is no document {key[:60]!r}")
    return NewExecution(key, {"kind": kind})


@dataclass
class Estimate:
    """What reading these papers again is expected to take."""

    papers: int = 0
    pages: int = 0
    requests: int = 0
    tokens: int = 0
    usd: float = 0.0

    def __str__(self) -> str:
        """As `2 papers, 31 pages: at most 48 requests, about 130,000 tokens, $0.12`."""
        papers, pages = (
            f"{number:,} {word}{'s' * (number != 1)}"
            for number, word in ((self.papers, "paper"), (self.pages, "page"))
        )
        if not self.requests:
            return f"{papers}, {pages}: no request, all on these machines"
        usd = f", ${self.usd:,.4f}" if self.usd else ""
        return f"{papers}, {pages}: at most {self.requests:,} requests, about {self.tokens:,} tokens{usd}"


def estimate(new: Iterable[NewExecution]) -> Estimate:
    """By the rules by which their steps reserve it."""
    # Imported here: the rules are part of the flow, which is built of this module.
    from pipeline.flows import PAPERS

    found = Estimate()
    for each in new:
        found.papers += 1
        found.pages += int(each.payload.get("pages_expected") or 0)
        for ref in PAPERS.steps():
            if not ref.step.needed(each.payload):
                continue
            uses = ref.step.uses(each.payload)
            found.requests += ref.step.cost(each.payload)
            found.tokens += int(uses.get("tokens") or 0)
            found.usd += float(uses.get("usd") or 0)
    return found
