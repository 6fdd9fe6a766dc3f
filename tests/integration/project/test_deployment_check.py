"""Who follows the hardening checklist of docs/security.md gets no warning that is not left to the proxy."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.compose_file import ROOT

LEFT_TO_THE_PROXY = {"security.W004", "security.W008"}  # Strict-Transport-Security; redirects to TLS
HARDENED = {
    "SLUICE_BEHIND_TLS_PROXY": "on",
    "SLUICE_ALLOWED_HOSTS": "papers.example.org",
    "SLUICE_TRUSTED_ORIGINS": "https://papers.example.org",
}


def test_django_warns_only_of_what_the_checklist_leaves_to_the_proxy(tmp_path: Path) -> None:
    checked = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy"],
        env={**os.environ, **HARDENED, "SLUICE_DATA_DIR": str(tmp_path)},
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert set(re.findall(r"security\.\w+", checked.stderr)) == LEFT_TO_THE_PROXY
    assert all(f"`{name}`" in (ROOT / "docs" / "security.md").read_text() for name in HARDENED)
