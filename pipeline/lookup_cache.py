"""What services answered, kept: the same question is not put twice while its answer is fresh."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta

from django.utils import timezone

from pipeline.models import Lookup
from pipeline.steps.resolve.sources.answer import Answer, Outcome


@dataclass(frozen=True)
class Kept:
    """Answers about one document by source, and the sources whose answer is still fresh."""

    answers: Mapping[str, Answer]
    fresh: Collection[str]


def kept(name: str, days: float, unknown_days: float) -> Kept:
    """What is kept under a document's key; `days` an answer with an address is fresh, and
    `unknown_days` any other."""
    now, answers, fresh = timezone.now(), {}, set()
    for row in Lookup.objects.filter(name=name):
        answer = Answer.of_json(row.answer)
        if answer is None:
            continue
        answers[row.source] = answer
        age = timedelta(days=days if answer.outcome == Outcome.FOUND else unknown_days)
        if row.asked_at > now - age:
            fresh.add(row.source)
    return Kept(answers, fresh)


def keep(name: str, source: str, answer: Answer) -> None:
    """Remember an answer, in place of an older one."""
    row = Lookup(source=source, name=name, answer=answer.as_json(), asked_at=timezone.now())
    Lookup.objects.bulk_create(
        [row],
        update_conflicts=True,
        unique_fields=("source", "name"),
        update_fields=("answer", "asked_at"),
    )


def forget(name: str) -> None:
    """Let every source be asked anew about this document."""
    Lookup.objects.filter(name=name).delete()
