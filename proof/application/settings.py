"""The project's settings, with the hostile flow and storage that fails on demand."""

from __future__ import annotations

import project.settings
from project.settings import *  # noqa: F403  # they are the settings; two of them change

INSTALLED_APPS = [*project.settings.INSTALLED_APPS, "proof.application"]
STORAGES = {
    **project.settings.STORAGES,
    "default": {"BACKEND": "proof.application.storage.FailingStorage", "OPTIONS": {"allow_overwrite": True}},
}
