"""All that a PDF says of itself: what it prints, and what is embedded in it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.steps.metadata.embedded import credible_title, embedded
from pipeline.steps.metadata.letters_only import squeezed
from pipeline.steps.metadata.printed import Stated, front_of, printed


def of_paper(text: str, info: Mapping[str, str]) -> dict[str, list[list[Any]]]:
    """Field, value and confidence of each statement, by its source; JSON."""
    own = embedded(info, front_of(text))
    on_paper = [than_embedded(each, own) for each in printed(text, credible_title(info))]
    return {"embedded": list(map(list, own)), "printed": list(map(list, on_paper))}


def than_embedded(each: Stated, embedded_ones: list[Stated]) -> Stated:
    """A printed list of authors that begins with the embedded ones and goes on is the better one: some
    programs embed the first alone."""
    for other in embedded_ones:
        if each.field == other.field == "authors" and is_longer(each.value, other.value):
            return each._replace(confidence=other.confidence + 0.01)
    return each


def is_longer(printed_names: list[str], embedded_names: list[str]) -> bool:
    start = printed_names[: len(embedded_names)]
    return len(printed_names) > len(start) and list(map(squeezed, start)) == list(
        map(squeezed, embedded_names)
    )
