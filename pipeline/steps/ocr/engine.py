"""Which OCR engine to use: the configured one, or the best available. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from queuemgr import StepFailed

Engine = Literal["rapidocr", "tesseract", "remote"]

EngineSetting = Literal["auto", "rapidocr", "tesseract", "remote"]


@dataclass(frozen=True)
class AvailableEngines:
    """Whether an endpoint is configured, the packages RapidOCR lacks, Tesseract's languages."""

    endpoint: bool
    missing_packages: tuple[str, ...] = ()
    tesseract: frozenset[str] = frozenset()


@dataclass(frozen=True)
class EngineChoice:
    """The engine, and the languages for Tesseract."""

    engine: Engine
    languages: str = ""


def choose_engine(wanted: EngineSetting, languages: str, available: AvailableEngines) -> EngineChoice:
    """The engine for `wanted`. Raises `StepFailed` (`no_engine`, `bad_request`) with the remedy.

    `auto` uses the endpoint if one is configured. Else Tesseract, if it is installed with every
    configured language (`eng+deu`): it keeps the order of lines better, but reads a script without
    its language as garbage. Else RapidOCR, which reads Latin and Chinese; else Tesseract with the
    languages it has.
    """
    readable = available.tesseract - {"osd", "equ", "snum"}
    named = [name for name in languages.split("+") if name]
    fits = bool(named) and set(named) <= readable
    if wanted == "remote" or (wanted == "auto" and available.endpoint):
        return remote(available)
    if wanted == "tesseract":
        return tesseract(named, readable)
    if wanted == "auto" and (fits or available.missing_packages) and readable:
        return tesseract(named if fits else [], readable)
    if available.missing_packages:
        missing = ", ".join(available.missing_packages)
        raise StepFailed(
            "no_engine",
            f"The local OCR engine is not installed ({missing} missing): "
            "run `make install`, install tesseract, or set SLUICE_OCR_BASE_URL.",
        )
    return EngineChoice("rapidocr")


def remote(available: AvailableEngines) -> EngineChoice:
    if not available.endpoint:
        raise StepFailed("bad_request", "The OCR engine is `remote`, but SLUICE_OCR_BASE_URL is not set.")
    return EngineChoice("remote")


def tesseract(named: Collection[str], readable: frozenset[str]) -> EngineChoice:
    if not readable:
        raise StepFailed("no_engine", "The OCR engine is `tesseract`, which is not installed.")
    missing = sorted(set(named) - readable)
    if missing:
        raise StepFailed(
            "bad_request",
            f"Tesseract has no language data for {', '.join(missing)}: install it, or set "
            f"SLUICE_OCR_LANGUAGES to installed ones ({', '.join(sorted(readable))}).",
        )
    return EngineChoice("tesseract", "+".join(named or sorted(readable)))
