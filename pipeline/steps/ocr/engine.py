"""Which engine reads the pages: the one named, or the best there is. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from queuemgr import StepFailed

Engine = Literal["rapidocr", "tesseract", "remote"]

Wanted = Literal["auto", "rapidocr", "tesseract", "remote"]


@dataclass(frozen=True)
class Installed:
    """What there is: an endpoint's address, the packages rapidocr lacks, Tesseract's languages."""

    endpoint: bool
    rapidocr_lacks: tuple[str, ...] = ()
    tesseract: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Chosen:
    """The engine, and the languages Tesseract is told."""

    engine: Engine
    languages: str = ""


def chosen(wanted: Wanted, languages: str, there: Installed) -> Chosen:
    """The engine for `wanted`. Raises `StepFailed` (`no_engine`, `bad_request`) with the remedy.

    `auto` takes the endpoint where one is configured. Else Tesseract, where it is installed with
    every language named (`eng+deu`): it keeps the order of lines better, but reads a script it was
    not told as garbage. Else RapidOCR, which knows Latin and Chinese letters; else Tesseract with
    whatever it has.
    """
    readable = there.tesseract - {"osd", "equ", "snum"}
    named = [name for name in languages.split("+") if name]
    fits = bool(named) and set(named) <= readable
    if wanted == "remote" or (wanted == "auto" and there.endpoint):
        return remote(there)
    if wanted == "tesseract":
        return tesseract(named, readable)
    if wanted == "auto" and (fits or there.rapidocr_lacks) and readable:
        return tesseract(named if fits else [], readable)
    if there.rapidocr_lacks:
        raise StepFailed(
            "no_engine",
            f"The local OCR engine is not installed ({', '.join(there.rapidocr_lacks)} missing): "
            "`pip install sluicegate[ocr]`, install tesseract, or set SLUICE_OCR_BASE_URL.",
        )
    return Chosen("rapidocr")


def remote(there: Installed) -> Chosen:
    if not there.endpoint:
        raise StepFailed(
            "bad_request", "The OCR engine is `remote`, but SLUICE_OCR_BASE_URL is not set."
        )
    return Chosen("remote")


def tesseract(named: Collection[str], readable: frozenset[str]) -> Chosen:
    if not readable:
        raise StepFailed("no_engine", "The OCR engine is `tesseract`, which is not installed.")
    lacking = sorted(set(named) - readable)
    if lacking:
        raise StepFailed(
            "bad_request",
            f"Tesseract cannot read {', '.join(lacking)} here: install its data, or name what "
            f"it has ({', '.join(sorted(readable))}) in SLUICE_OCR_LANGUAGES.",
        )
    return Chosen("tesseract", "+".join(named or sorted(readable)))
