"""Refusals are pages in the style of the others, with a way on, wherever they are met."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.template.loader import render_to_string
from django.test import Client

from tests.integration.web.admin.admin_pages import page

pytestmark = pytest.mark.django_db


def test_a_page_that_one_may_not_open_says_so_in_the_frame_of_the_admin(staff: Callable[..., Client]) -> None:
    response = staff("view_execution").get(page("apitoken"))
    text = response.content.decode()
    assert response.status_code == 403
    assert "does not have the permission" in text
    assert page("execution") in text


def test_an_address_of_nothing_leads_on(superuser: Client) -> None:
    for path, status in (("/nowhere", 404), ("/admin/queuemgr/nowhere/", 404)):
        response = superuser.get(path)
        text = response.content.decode()
        assert response.status_code == status
        assert "Nothing is at this address" in text
        assert 'href="/admin/"' in text


def test_the_page_of_a_failure_needs_nothing_that_may_have_failed() -> None:
    for status in ("400", "403", "403_csrf", "500"):
        text = render_to_string(f"{status}.html")
        assert f"({status[:3]})" in text
        assert 'href="/admin/"' in text
