"""The step that looks up what a paper cites, by the printed DOIs, one request a lease.

It only adds to what is known: a service that fails is left out, and the paper continues.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from celery import shared_task

from pipeline import files, lookup_cache
from pipeline.config import pipeline_settings
from pipeline.models import Document
from pipeline.steps.identify import Identifier, identify
from pipeline.steps.resolve.cited_work import with_answer
from pipeline.steps.resolve.resolve import SOURCES
from pipeline.steps.resolve.sources.answer import Answer
from pipeline.steps.resolve.sources.lookup_log import Inquiry
from pipeline.steps.resolve.sources.query import query_source
from pipeline.steps.resolve.sources.source import Source
from pipeline.tasks.documents import done, load
from pipeline.tasks.http_client import http_client
from pipeline.tasks.metadata import DEADLINE
from pipeline.tasks.pages import json_lines, stored_records
from pipeline.tasks.resolve import options_of
from queuemgr import BadInput, Done, Failed, LeasedTask, Result, Snoozed, Work

SERVICES = ("crossref", "openalex")
"""Who is asked, in this order: they answer about any DOI with authors, title, year and venue."""

LONGEST = 255
"""Characters of a DOI whose answer can be kept: without it each lease would ask again."""

MOST_FAILURES = 3
"""Of one service, after which it is asked no more about this paper."""

MOST_REFUSALS, LONGEST_WAIT = 3, 600.0
"""Times that one service may refuse for too many requests, and seconds that it may ask for: its limit waits
for them, and the paper is asked about again; after that it continues without."""

NOT_MOVED = {"moved_to": "", "moved_for": ""}
"""No service has sent us elsewhere; where one has: to which path, and which service about which DOI."""

Answers = Mapping[str, Mapping[str, Answer]]


@shared_task(base=LeasedTask, name="papers.references")
def references_step(work: Work) -> Result:
    """Ask one service about one DOI of the list, or end when all have been asked about."""
    document = load(work)
    records = stored_records(document.references_file)
    dois = list(islice(_dois(records), int(work.inputs.get("references_to_look_up") or 0)))
    names = [each.key for each in dois]
    with work.database():
        answers = lookup_cache.known_answers(names, max(1, pipeline_settings().lookup_days))
    failed, refused = (dict(work.inputs.get(f"references_{name}") or {}) for name in ("failed", "refused"))
    lookup = _Lookup(work, document, answers, failed, refused)
    following = lookup.next(dois)
    if following is None:
        return lookup.finished(records)
    return lookup.asked(*following)


def _dois(records: list[dict[str, Any]]) -> Iterator[Identifier]:
    """Each once, in the order of the list, without those that are none or too long to be kept."""
    seen = set()
    for record in records:
        try:
            found = identify(f"doi:{record.get('doi')}") if record.get("doi") else None
        except BadInput:
            continue
        if found is None or found.kind != "doi" or len(found.key) > LONGEST:
            continue
        if found.key not in seen:
            seen.add(found.key)
            yield found


@dataclass(frozen=True)
class _Lookup:
    """The work of one lease. `failed`: by service the DOIs about which it failed to answer; `refused`: how
    often it asked for fewer requests."""

    work: Work
    document: Document
    answers: Answers
    failed: dict[str, list[str]]
    refused: dict[str, int]

    def next(self, dois: list[Identifier]) -> tuple[Source, Identifier] | None:
        """Who is asked about what; None when there is nobody left to ask."""
        for doi in dois:
            known = self.answers.get(doi.key, {})
            if any(answer.paper.title for answer in known.values()):
                continue
            for name in SERVICES:
                if name not in known and self._is_asked(name, doi):
                    return SOURCES[name], doi
        return None

    def _is_asked(self, name: str, doi: Identifier) -> bool:
        failures = self.failed.get(name, [])
        is_left_out = len(failures) >= MOST_FAILURES or self.refused.get(name, 0) >= MOST_REFUSALS
        return doi.key not in failures and not is_left_out

    def asked(self, source: Source, doi: Identifier) -> Result:
        if source.limit not in self.work.grant.limit_keys.split():
            return Snoozed(0, f"asks {source.title} about references", {"resolver": source.name})
        config = pipeline_settings()
        options = replace(options_of(config), deadline=min(config.http_timeout, DEADLINE))
        asked = f"{source.name} {doi.key}"
        is_its = self.work.inputs.get("moved_for") == asked
        moved_to = str(self.work.inputs.get("moved_to") or "") if is_its else ""
        inquiry, answer = query_source(source, doi, options, http_client(), self.work.signal, moved_to)
        if answer is not None:
            return Snoozed(
                0, f"{source.title} answered", NOT_MOVED,
                lambda: lookup_cache.save_answer(doi.key, source.name, answer), service_result=Done(),
            )  # fmt: skip
        if inquiry.path and not moved_to:
            moved = {"moved_to": inquiry.path, "moved_for": asked}
            return Snoozed(0, f"{source.title} moved it", moved, service_result=Done())
        if inquiry.kind == "rate_limited":
            return self._refused(source, inquiry)
        failed = {**self.failed, source.name: [*self.failed.get(source.name, []), doi.key]}
        context = {"references_failed": failed, **NOT_MOVED}
        return Snoozed(0, f"{source.title} did not answer: {inquiry.detail}", context)

    def _refused(self, source: Source, inquiry: Inquiry) -> Snoozed:
        """Its limit hears for how long; the same is asked again under it."""
        wait = inquiry.retry_after
        times = self.refused.get(source.name, 0) + 1 if (wait or 0) <= LONGEST_WAIT else MOST_REFUSALS
        is_left_out = times >= MOST_REFUSALS
        then = "is asked no more about this paper" if is_left_out else "is asked again then"
        asks = f"asks to wait {wait:g} s" if wait is not None else "asks for fewer requests"
        return Snoozed(
            0, f"{source.title} {asks}, and {then}",
            {
                "references_refused": {**self.refused, source.name: times},
                "resolver": "" if is_left_out else source.name,
            },
            service_result=Failed("rate_limited", inquiry.detail, wait),
        )  # fmt: skip

    def finished(self, records: list[dict[str, Any]]) -> Done:
        """Store the list with what was answered."""
        found = [self._looked_up(record) for record in records]
        context = {
            "resolver": "", "references_to_look_up": 0, "references_failed": {}, "references_refused": {},
            **NOT_MOVED,
        }  # fmt: skip
        if found == records:
            return Done(context)
        name = f"references/{self.document.file_stem}.jsonl"
        return done(
            self.document, context,
            references_file=files.promote_text(self.work, json_lines(found), name),
        )  # fmt: skip

    def _looked_up(self, record: dict[str, Any]) -> dict[str, Any]:
        known = self.answers.get(next((each.key for each in _dois([record])), ""), {})
        for name in SERVICES:
            if name in known and known[name].paper.title:
                return with_answer(record, name, known[name].paper)
        return record
