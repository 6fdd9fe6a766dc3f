"""Papers that are read again, every page by OCR: by an execution beside the one that read them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pipeline.models import AGAIN, FLOW, Document
from queuemgr import MAX_KEY, BadInput, NewExecution
from queuemgr.extend.models import FINAL, Execution

KNOWN = ("llm_chunks", "llm_tokens", "llm_schema_tokens")
"""What the first reading left about what an analysis takes: by it the second is estimated."""


def by_ocr(new: NewExecution) -> NewExecution:
    """This, or where its paper was read without OCR of every page, what reads it again: the same wish twice
    is one execution. Raises `BadInput` for a paper that has not been read to its end."""
    if not new.payload.get("force_ocr") or "document" in new.payload:
        return new
    first = Execution.objects.filter(flow=FLOW, key=new.key).only("state", "payload", "context").first()
    if first is None or first.payload.get("force_ocr"):
        return new
    if first.state not in FINAL:
        raise BadInput(
            f"{new.key[:60]!r} is being read without: ask for OCR of every page when that has ended"
        )
    payload = {**first.payload, **new.payload, "document": new.key, **_expected(new.key, first.context)}
    return replace(new, key=_key_again(new.key), payload=payload)


def of_known(key: str) -> NewExecution:
    """The execution of a document that is there. Raises `BadInput`."""
    kind = Document.objects.filter(key=key.replace("\x00", "")).values_list("kind", flat=True).first()
    if kind is None:
        raise BadInput(f"there is no document {key[:60]!r}")
    return NewExecution(key, {"kind": kind})


def _key_again(key: str) -> str:
    if len(key) + len(AGAIN) <= MAX_KEY:
        return key + AGAIN
    digest = hashlib.sha256(key.encode()).hexdigest()[:32]
    return f"{key[: MAX_KEY - len(AGAIN) - 33]}~{digest}{AGAIN}"


def _expected(key: str, context: Mapping[str, Any]) -> dict[str, Any]:
    pages = Document.objects.filter(key=key).values_list("pages", flat=True).first()
    known = {name: context[name] for name in KNOWN if context.get(name)}
    return known | ({"pages_expected": pages} if pages else {})


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
