"""Says which extra of the distribution brings a package that is not installed."""

from __future__ import annotations

from importlib.util import find_spec

from queuemgr.base.errors import MissingExtra


def need_extra(extra: str, *packages: str) -> None:
    """Raise `MissingExtra` unless these top-level packages, which the extra brings, can be imported."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise MissingExtra(extra, missing)
