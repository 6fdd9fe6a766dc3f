"""Papers that have reached their analysis, and a fake worker that runs that step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.core.files.base import ContentFile

from pipeline.models import Document
from pipeline.steps.analyse.chunks import plan_chunks
from pipeline.steps.extract.references import before_references
from pipeline.tasks.analyse import tokens_of_chunks
from queuemgr.models import Attempt, Execution, Lease
from tests.fake_llm import FakeLlm
from tests.integration.pipeline.step_fixtures import StepRunner

SECRET = "Zanzibar"
SECTION = "We counted every gate on canal {n} near " + SECRET + " twice and found a leak in it.\n"
SHORT = "On leaks\n" + SECTION.format(n=1) * 5


def long_paper(sections: int = 8) -> str:
    """A section has about 1,140 tokens."""
    return "On leaks\n" + "".join(
        f"{n} Canal number {n}\n" + SECTION.format(n=n) * 60 for n in range(1, sections + 1)
    )


@contextmanager
def served_model(set_settings: Callable[..., None], **settings: object) -> Iterator[FakeLlm]:
    """A model's endpoint, with a context so small that `long_paper()` takes four parts."""
    model = FakeLlm()
    set_settings(
        llm_base_url=model.base_url, llm_model="m-1", llm_context_tokens=4_100,
        llm_max_tokens=200, llm_timeout=5, **settings,
    )  # fmt: skip
    yield model
    model.close()


class AnalyseRunner(StepRunner):
    phase, step = "expensive", "analyse"

    def add(self, key: str, text: str, *, counted: bool = True) -> Execution:
        """Have this paper wait for its analysis; `counted`: its parts are in the context."""
        document = Document.objects.create(key=key, kind="file", source=key)
        document.text.save(f"text/{key}.txt", ContentFile(text.encode()))
        tokens = tokens_of_chunks() if counted else None
        chunks = len(plan_chunks(before_references(text), tokens).chunks) if tokens else None
        return self.enqueue(key, {"llm_chunks": chunks} if chunks else {})


def reserved() -> int:
    return sum(Lease.objects.values_list("cost", flat=True))


def outcomes() -> list[tuple[str, int]]:
    """How each attempt ended, and what it was charged."""
    return list(Attempt.objects.order_by("pk").values_list("outcome", "cost"))
