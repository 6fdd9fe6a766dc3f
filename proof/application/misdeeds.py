"""What hostile code does, by the words of `proof.ways`: each a function that raises, or returns what the step
returns (None: what is right)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from proof.application import disturbances, raised, rubbish, stores

Misdeed = Callable[[], Any]

MISDEEDS: Mapping[str, Misdeed] = {
    **{f"raises {name}": misdeed for name, misdeed in raised.MISDEEDS.items()},
    **{f"returns {name}": misdeed for name, misdeed in rubbish.MISDEEDS.items()},
    **{f"stores {name}": misdeed for name, misdeed in stores.MISDEEDS.items()},
    **disturbances.MISDEEDS,
}


def done_by(way: str, inputs: Mapping[str, Any]) -> Any:
    """Misbehave in this way; what ends the process does so the first time only, unless always."""
    misdeed = MISDEEDS.get(way)
    if misdeed is None or (way in disturbances.ONCE and not _first_time(inputs)):
        return None
    return misdeed()


def _first_time(inputs: Mapping[str, Any]) -> bool:
    """Once for each execution, whichever process asks."""
    try:
        Path(f"{inputs['mark']}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
