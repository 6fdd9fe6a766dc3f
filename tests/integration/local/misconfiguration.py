"""What a misconfiguration is made with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


@dataclass
class Scene:
    """What a misconfiguration is made with. With an `environment`, `doctor` runs in a process of its own,
    which starts with nothing but that and a private data directory."""

    directory: Path
    patch: pytest.MonkeyPatch
    fixture: Callable[[str], Any]
    environment: dict[str, str] = field(default_factory=dict)
    undo: list[Callable[[], object]] = field(default_factory=list)


Make = Callable[[Scene], object]


def variables(**values: str) -> Make:
    return lambda scene: scene.environment.update(values)


def set_here(**values: str) -> Make:
    return lambda scene: [scene.patch.setenv(*pair) for pair in values.items()]
