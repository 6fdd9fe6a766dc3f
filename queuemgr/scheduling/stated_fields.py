"""What a limit may be stated as: how many at once, a rate, or its fields. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from queuemgr.base.errors import ConfigurationError
from queuemgr.base.safe_text import excerpt


def fields_of(stated: Any, where: str) -> Mapping[str, Any]:
    """The field values that this states; `where` names what states it. Raises `ConfigurationError`."""
    if isinstance(stated, Mapping):
        return stated
    if isinstance(stated, str):
        return {"rate": stated}
    if isinstance(stated, int) and not isinstance(stated, bool):
        return {"max_running": stated}
    raise ConfigurationError(
        f"{where} is stated as {excerpt(stated)}; write how many at once (2), a rate ('50/m') or "
        "fields ({'max_running': 2, 'rate': '50/m'})"
    )
