"""Names that look like settings and are none: a typo would go unnoticed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from queuemgr.base.program_secrets import all_groups
from queuemgr.base.settings_group import COMMAND_LINE

OF_DJANGO = frozenset({
    "SLUICE_BROKER_VARIABLE", "SLUICE_CELERY_APP", "SLUICE_DATABASE_VARIABLE", "SLUICE_DATA_DIR",
    "SLUICE_FLOWER_URL", "SLUICE_INBOX", "SLUICE_PROGRAM_SECRETS", "SLUICE_ROLE_APPS", "SLUICE_SCRATCH",
    "SLUICE_UNFOLD",
})  # fmt: skip
"""Settings of no group: they are read from Django's settings alone."""


def unknown_settings(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Those of the names that begin as ours do and are no setting, each with what to do."""
    known = {config.variable(name) for config in all_groups() for name in config.model_fields}
    known |= {COMMAND_LINE, "SLUICE_LOG_LEVEL", *OF_DJANGO}
    for name in sorted(set(names)):
        if name.startswith("SLUICE_") and name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            yield name, f"did you mean {near[0]}?" if near else "see docs/configuration.md"
