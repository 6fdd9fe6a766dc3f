"""A data directory to run commands in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shell import Shell


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, shell: Shell) -> Path:
    """A data directory whose database has its tables."""
    directory = tmp_path_factory.mktemp("installed")
    assert shell(directory, "migrate", "--skip-checks", "--verbosity", "0").returncode == 0
    return directory
