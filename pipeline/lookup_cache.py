"""A cache of the sources' answers: none is asked again while its answer is fresh."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from django.utils import timezone

from pipeline.models import Lookup
from pipeline.steps.resolve.resolve_state import CachedAnswers
from pipeline.steps.resolve.sources.answer import Answer, Outcome


def cached_answers(name: str, days: float, unknown_days: float) -> CachedAnswers:
    """The answers about the document of this key. One with an address is fresh for `days`, any other
    for `unknown_days`."""
    now, answers, fresh = timezone.now(), {}, set()
    for row in Lookup.objects.filter(name=name):
        answer = Answer.from_json(row.answer)
        if answer is None:
            continue
        answers[row.source] = answer
        age = timedelta(days=days if answer.outcome == Outcome.FOUND else unknown_days)
        if row.asked_at > now - age:
            fresh.add(row.source)
    return CachedAnswers(answers, fresh)


def known_answers(names: Collection[str], days: float) -> dict[str, dict[str, Answer]]:
    """The answers about these, by name and source, that are at most so many days old."""
    found: dict[str, dict[str, Answer]] = {}
    oldest = timezone.now() - timedelta(days=days)
    for row in Lookup.objects.filter(name__in=names, asked_at__gt=oldest):
        if (answer := Answer.from_json(row.answer)) is not None:
            found.setdefault(row.name, {})[row.source] = answer
    return found


def save_answer(name: str, source: str, answer: Answer) -> None:
    """Store an answer, replacing an older one."""
    row = Lookup(source=source, name=name, answer=answer.to_json(), asked_at=timezone.now())
    Lookup.objects.bulk_create(
        [row], update_conflicts=True, unique_fields=("source", "name"), update_fields=("answer", "asked_at")
    )


def delete_answers(name: str) -> None:
    """Have every source asked again about this document."""
    Lookup.objects.filter(name=name).delete()
