"""Errors of single pages; runs inside the sandbox."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class NoSuchPage(Exception):
    """The document has no page of this number."""

    def __init__(self) -> None:
        super().__init__("no such page")


def page_of(document: Any, number: int) -> Any:
    """A page of a PDFium document, counted from 1. Raises `NoSuchPage`."""
    if not 1 <= number <= len(document):
        raise NoSuchPage
    return document[number - 1]


@contextmanager
def errors_of_page(line: dict[str, Any]) -> Iterator[None]:
    """Store what the block raises as the line's `error`, since it concerns this page only: the type, never
    the message, which may quote the document. Too little memory ends the whole child."""
    try:
        yield
    except MemoryError:
        raise
    except NoSuchPage as error:
        line["error"] = str(error)
    except Exception as error:  # what libraries raise over a damaged page has no common base
        line["error"] = type(error).__name__
