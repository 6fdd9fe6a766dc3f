"""What the frame of the admin promises: a menu of what one may see, and nothing loaded from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core import checks
from django.test import Client
from django_celery_results.models import GroupResult, TaskResult

from project.config import ProjectSettings
from queuemgr.base.errors import ConfigurationError
from queuemgr.base.redaction import register_secret
from queuemgr.models import Limit
from queuemgr.scheduling import limit_rows
from tests.integration.web.admin.admin_pages import page, text_of

pytestmark = pytest.mark.django_db

HOSTILE = "<script>alert(1)</script>"
RESULT = "/admin/django_celery_results/taskresult/"
LOADED = re.compile(r'<(?:script|link|img|iframe|use)\b[^>]*?(?:src|href)="([^"]*)"')


@pytest.fixture(autouse=True)
def _limits() -> None:
    limit_rows.sync()


def menu_of(client: Client, url: str = "/admin/password_change/") -> dict[str, str]:
    """The entries of the menu and where they lead."""
    items = client.get(url).context["sidebar_navigation"]
    return {item["title"]: item["link"] for group in items for item in group["items"]}


def test_the_checks_of_django_find_nothing_wrong_with_any_page() -> None:
    """Pages are imported with the addresses; the checks of the admin do not see to that themselves."""
    import_module(settings.ROOT_URLCONF)
    assert checks.run_checks() == []


def test_the_menu_holds_only_what_the_person_may_see(staff: Callable[..., Client]) -> None:
    entries = menu_of(staff("view_limit"))
    assert "Limits" in entries
    assert not {"Executions", "Users", "Documents", "Task results", "API tokens"} & entries.keys()


def test_every_entry_of_the_menu_leads_to_a_page(superuser: Client) -> None:
    entries = menu_of(superuser)
    assert {"Dashboard", "Executions", "Limits", "Users", "Task results", "Collection"} <= entries.keys()
    for link in entries.values():
        assert superuser.get(link).status_code == 200, link


def test_one_entry_of_the_menu_is_marked_on_every_page_it_leads_to(superuser: Client) -> None:
    for title, link in menu_of(superuser).items():
        if not link.startswith("/admin/"):
            continue  # a page of its own, without the menu
        groups = superuser.get(link).context["sidebar_navigation"]
        marked = [i["title"] for group in groups for i in group["items"] if i["active"]]
        assert marked == [title]


def test_the_page_one_is_on_is_the_one_the_menu_marks(operator: Client) -> None:
    text = text_of(operator.get(page("limit")))
    marked = re.findall(r'<a href="([^"]*)" aria-current="page"', text)
    assert marked == [page("limit")]


def test_flower_is_in_the_menu_where_its_address_is_known(superuser: Client, settings: Any) -> None:
    settings.SLUICE_FLOWER_URL = ""
    assert "Flower" not in menu_of(superuser)
    settings.SLUICE_FLOWER_URL = "https://flower.example.org/"
    assert menu_of(superuser)["Flower"] == "https://flower.example.org/"


@pytest.mark.parametrize("address", ["javascript:alert(1)", "flower.example.org", "//x y"])
def test_an_address_of_flower_that_is_no_web_address_is_refused_by_name(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_FLOWER_URL", address)
    with pytest.raises(ConfigurationError, match="SLUICE_FLOWER_URL"):
        ProjectSettings.load()


@pytest.mark.parametrize("url", ["/admin/login/", "/admin/", page("execution"), page("limit")])
def test_no_page_loads_anything_from_another_host(operator: Client, url: str) -> None:
    if "login" in url:
        operator.logout()
    loaded = LOADED.findall(text_of(operator.get(url)))
    assert len(loaded) > 5
    assert [address for address in loaded if not address.startswith("/static/")] in (
        [], ["/admin/jsi18n/"],
    )  # fmt: skip


def test_the_filters_in_force_are_named_and_taken_back_one_by_one(operator: Client) -> None:
    text = text_of(operator.get(page("attempt") + "?phase=prep&priority=normal&q=doc"))
    chips = re.findall(r'<li><a href="\?([^"]*)" title="Remove">(\w+): (\w+)', text)
    assert {(name, choice) for _, name, choice in chips} == {
        ("phase", "prep"), ("priority", "normal"),
    }  # fmt: skip
    without = {name: query.replace("&amp;", "&") for query, name, _ in chips}
    assert {*without["phase"].split("&")} == {"priority=normal", "q=doc"}


def test_the_name_of_a_row_stands_as_it_is_in_the_heading(operator: Client) -> None:
    limit = Limit.objects.get(name="host:*")
    text = text_of(operator.get(page("limit", limit.pk, view="change")))
    assert re.search(r'class="sg-part">Limits</a>', text)
    assert re.search(r'class="sg-part">host:\*</a>', text)


@pytest.fixture
def result() -> TaskResult:
    register_secret("a-secret-of-the-tests")
    return TaskResult.objects.create(
        task_id="5f0c", task_name=f"chore{HOSTILE}", task_args=HOSTILE, task_kwargs=HOSTILE,
        result=f"{HOSTILE} a-secret-of-the-tests", worker=HOSTILE,
        traceback=f"{HOSTILE} redis://:hunter22@broker:6379/0",
    )  # fmt: skip


def test_what_a_task_was_given_and_gave_back_is_text_without_secrets(
    superuser: Client, result: TaskResult
) -> None:
    for url in (RESULT, f"{RESULT}{result.pk}/change/"):
        text = text_of(superuser.get(url))
        assert "<script>alert" not in text
        assert "&lt;script&gt;" in text
        assert "a-secret-of-the-tests" not in text
        assert "hunter22" not in text


def test_not_even_a_superuser_edits_or_deletes_a_result(superuser: Client, result: TaskResult) -> None:
    group = GroupResult.objects.create(group_id="8a1d", result=HOSTILE)
    for url in (f"{RESULT}{result.pk}", f"{RESULT.replace('task', 'group')}{group.pk}"):
        assert superuser.get(f"{url}/change/").status_code == 200
        for view, posted in (("change", {"status": "SUCCESS"}), ("delete", {"post": "yes"})):
            assert superuser.post(f"{url}/{view}/", posted).status_code == 403
    assert superuser.get(f"{RESULT}add/").status_code == 403
    result.refresh_from_db()
    assert result.status == "PENDING"


def test_users_and_groups_are_in_the_frame_of_all_pages(superuser: Client) -> None:
    user = User.objects.first()
    assert user is not None
    for url in ("/admin/auth/user/", f"/admin/auth/user/{user.pk}/change/", "/admin/auth/group/add/"):
        assert 'id="nav-sidebar"' in text_of(superuser.get(url))
