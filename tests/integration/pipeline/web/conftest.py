"""What pages of papers need: folders of their own, and somebody who may read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client


@pytest.fixture(autouse=True)
def _folders(settings: Any, tmp_path: Path, static_root: None) -> None:
    settings.MEDIA_ROOT, settings.SLUICE_SCRATCH = tmp_path / "files", tmp_path / "scratch"


@pytest.fixture
def reader(db: None) -> Client:
    """The client of a user who may only view documents."""
    user = User.objects.create_user("rea", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_document"))
    client = Client()
    client.force_login(user)
    return client
