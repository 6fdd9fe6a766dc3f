"""The roles are of the queue: what a project has beside it is none of theirs, unless it says so."""

from __future__ import annotations

import pytest
from django.test import override_settings

from queuemgr.operations import roles

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("role", roles.ROLES)
@pytest.mark.parametrize("stated", [(), ("pipeline",)])
def test_a_role_holds_nothing_of_applications_that_were_not_named(role: str, stated: tuple[str, ...]) -> None:
    with override_settings(SLUICE_ROLE_APPS=stated):
        held = {name.partition(".")[0] for name in roles.names(roles.permissions_of(role))}
    assert held - {"auth"} == {"queuemgr", *stated}
    assert "auth" not in held or role == roles.ADMIN
