"""Real papers with known facts, where there are any: they are not part of this repository."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "corpus"

CORPUS = Path(os.environ.get("SLUICE_CORPUS", BESIDE))

FACTS: list[dict[str, Any]] = (
    json.loads((CORPUS / "facts.json").read_text()) if (CORPUS / "facts.json").exists() else []
)

needs_corpus = pytest.mark.skipif(
    not FACTS, reason="no corpus: SLUICE_CORPUS names no folder with a facts.json"
)
