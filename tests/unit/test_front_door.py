"""`queuemgr` itself: the names an application writes its flows with."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import queuemgr

NO_SETTINGS = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(queuemgr.__file__).parents[1])}


def loaded_after(statement: str) -> set[str]:
    """The modules a fresh interpreter without Django settings has loaded after a statement."""
    program = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], env=NO_SETTINGS, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_every_public_name_can_be_imported() -> None:
    assert all(getattr(queuemgr, name) is not None for name in queuemgr.__all__)


def test_the_names_that_need_django_are_those_imported_for_type_checkers() -> None:
    tree = ast.parse(Path(queuemgr.__file__).read_text())
    guard = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {
        (alias.name, node.module)
        for node in guard.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == set(queuemgr._NEED_DJANGO.items())


def test_importing_the_front_door_imports_nothing_of_django() -> None:
    assert not {"django", "celery"} & loaded_after("import queuemgr")


def test_a_plain_step_imports_its_errors_and_signal_without_django() -> None:
    loaded = loaded_after("from queuemgr import AbortSignal, Done, Flow, StepFailed, no_retry")
    assert not {"django", "celery"} & loaded


def test_a_name_that_is_not_public_is_refused_by_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Executions'"):
        _ = queuemgr.Executions


def test_who_has_not_installed_the_app_gets_an_error_that_says_so() -> None:
    program = (
        "import django; from django.conf import settings\n"
        "settings.configure(INSTALLED_APPS=[]); django.setup()\n"
        "from queuemgr import queued"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=NO_SETTINGS, capture_output=True, text=True, check=False
    )
    assert "ConfigurationError: 'queuemgr' is not in INSTALLED_APPS of the settings" in done.stderr
