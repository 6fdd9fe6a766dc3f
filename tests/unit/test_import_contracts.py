"""The contracts of imports name every package there is, so that a new one is not overlooked."""

from __future__ import annotations

import pkgutil
import tomllib
from pathlib import Path

import queuemgr

PUBLIC = {"django_tasks", "extend", "steptools", "testing"}
CONTRACTS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]


def test_pipeline_may_import_no_package_of_queuemgr_but_the_public_ones() -> None:
    (contract,) = (c for c in CONTRACTS if c.get("source_modules") == ["pipeline"])
    there = {module.name for module in pkgutil.iter_modules(queuemgr.__path__)}
    assert set(contract["forbidden_modules"]) == {f"queuemgr.{name}" for name in there - PUBLIC}


def test_every_extension_module_is_small() -> None:
    folder = Path(queuemgr.__file__).parent / "extend"
    long = {path.name for path in folder.glob("*.py") if len(path.read_text().splitlines()) > 60}
    assert not long
