"""What a list tells is what its page offers: no look-up of a column that the page has no filter for, no
order and no search by what it does not show. Made from the models, for every page and one made here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.exceptions import DisallowedModelAdminLookup, DisallowedModelAdminToField
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.auth.models import Group, User
from django.contrib.messages.storage.cookie import CookieStorage
from django.core.exceptions import FieldDoesNotExist
from django.db import connection, models, transaction
from django.db.models.fields.json import KeyTransform
from django.http import QueryDict
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from queuemgr.models import Lease
from queuemgr.operations import roles
from queuemgr.web.guarded_site import GuardedList, guard
from tests.integration.web.admin import every_model
from tests.integration.web.admin.admin_pages import page

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("static_root")]

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = admin.ModelAdmin

PEOPLE = (*roles.ROLES, "superuser")

AGED = {"age"}
OFFERED: dict[str, set[str]] = {
    "attempt": AGED | {
        "phase", "outcome__exact", "outcome__isnull", "outcome__in", "retrying__exact", "retrying__isnull",
        "error_kind", "priority",
    },
    "auditentry": AGED | {"actor", "action", "source", "target", "action_id", "first_day", "last_day"},
    "batch": {"is"},
    "bulkaction": {"state__exact", "state__isnull", "verb", "actor"},
    "allowanceusage": {"limit", "starts_at__gte", "starts_at__lt"},
    "document": {"kind", "read", "open_access", "analysed"},
    "execution": AGED | {
        "flow", "phase", "step", "key", "state", "status", "error_kind", "error_fingerprint", "key_prefix",
        "text", "limit", "worker", "batch", "priority", "created_before", "created_after",
    },
    "groupresult": AGED,
    "queue": {"phase", "phase__isnull"},
    "taskresult": AGED | {"status", "task_name", "worker"},
    "user": {
        "is_staff__exact", "is_staff__isnull", "is_superuser__exact", "is_superuser__isnull",
        "is_active__exact", "is_active__isnull", "groups__id__exact", "groups__isnull",
    },
}  # fmt: skip
"""The parameters of each list: a filter nobody decided on fails here."""


def pages() -> list[tuple[str, Any]]:
    import_module(settings.ROOT_URLCONF)
    named = {str(model._meta.model_name): page for model, page in admin.site._registry.items()}
    return sorted(named.items())


def request_of(rf: RequestFactory, user: User, /, **given: str) -> Any:
    request: Any = rf.get("/")
    request.GET = QueryDict(mutable=True)
    request.GET.update(given)
    request.user, request._messages = user, CookieStorage(request)
    return request


def someone(role: str, name: str = "") -> User:
    """Of this role; a superuser as well."""
    roles.make()
    user = User.objects.create_user(name or f"some-{role}", is_staff=True, is_superuser=role == "superuser")
    user.groups.set(Group.objects.filter(name=role))
    return User.objects.get(pk=user.pk)


def lookups_of(field: Any, path: str) -> Iterator[str]:
    """Every look-up of a column, and every look-up of what a transform makes of it."""
    yield path
    for name, found in field.get_lookups().items():
        yield f"{path}__{name}"
        if issubclass(found, models.Transform):
            transformed = getattr(found, "output_field", None)
            looked_up = (
                transformed.get_lookups() if isinstance(transformed, models.Field) else ("gte", "exact")
            )
            yield from (f"{path}__{name}__{one}" for one in looked_up)
    if isinstance(field, models.JSONField):
        yield from (f"{path}__tenant__{one}" for one in ("", *KeyTransform.get_lookups()))


def lookups_on(model: type[models.Model]) -> Iterator[str]:
    """Every look-up of each column, and of each column of the models it refers to or that refer to it."""
    yield from lookups_of(model._meta.pk, "pk")
    for field in model._meta.get_fields():
        if field.is_relation:
            yield from (f"{field.name}{end}" for end in ("", "__isnull", "__exact", "__in"))
            for column in field.related_model._meta.concrete_fields if field.related_model else ():
                yield from lookups_of(column, f"{field.name}__{column.name}")
        if field.concrete:
            yield from lookups_of(field, field.name)


def answers(page: Any, request: Any) -> bool:
    """Whether its list reads anything for this request, rather than refuse it for the name alone."""
    try:
        with transaction.atomic():
            list(page.get_changelist_instance(request).result_list)
    except DisallowedModelAdminLookup:
        return False
    except IncorrectLookupParameters as error:
        return not isinstance(error.__cause__, FieldDoesNotExist)
    return True


def taken(its_page: Any, request: Any, lookups: Iterable[str]) -> set[str]:
    """Which of these parameters a filter of its list takes, all given at once; no row is read for them."""
    found = its_page.get_changelist_instance(request)
    allowed = {one: ["1"] for one in lookups if its_page.lookup_allowed(one, "1", request)}
    found.filter_params = allowed
    return set(allowed) - set(super(GuardedList, found).get_filters(request)[2])


def let_through(its_page: Any, request: Any, lookups: Iterable[str]) -> set[str]:
    """Which of these parameters, each given alone, its list would hand to the database where no filter has
    taken them; no row is read for them."""
    found, through = its_page.get_changelist_instance(request), set()
    found.list_filter = ()
    for one in lookups:
        found.filter_params = {one: ["1"]}
        try:
            found.get_filters(request)
        except DisallowedModelAdminLookup:
            continue
        except IncorrectLookupParameters as error:
            if isinstance(error.__cause__, FieldDoesNotExist):
                continue
        through.add(one)
    return through


def check(rf: RequestFactory, user: User, every: int) -> int:
    """Each `every`-th look-up of every list: no row is read for it unless the page has that filter."""
    wrong, tried = [], 0
    for name, its_page in pages():
        for lookup in islice(lookups_on(its_page.model), 0, None, every):
            tried += 1
            is_offered = lookup in OFFERED.get(name, ())
            if not is_offered and answers(its_page, request_of(rf, user, **{lookup: "1"})):
                wrong.append(f"{name}?{lookup}")
    assert wrong == []
    return tried


@pytest.mark.parametrize("role", PEOPLE)
def test_a_list_refuses_every_lookup_but_those_of_its_own_filters(role: str, rf: RequestFactory) -> None:
    user, tried = someone(role), 0
    for name, its_page in pages():
        lookups, offered, request = (
            set(lookups_on(its_page.model)),
            OFFERED.get(name, set()),
            request_of(rf, user),
        )
        tried += len(lookups)
        assert taken(its_page, request, lookups) <= offered, name
        assert let_through(its_page, request, lookups) <= offered, name
    assert tried > 20_000


@pytest.mark.parametrize("role", PEOPLE)
def test_a_list_reads_no_row_for_a_lookup_that_it_has_no_filter_for(role: str, rf: RequestFactory) -> None:
    """The same look-ups for each role."""
    every_model.make()
    assert check(rf, someone(role), every=199) > 50


@pytest.mark.slow_proof
@pytest.mark.parametrize(("role", "every"), [("viewer", 1), ("operator", 3), ("admin", 3), ("superuser", 1)])
def test_a_list_reads_no_row_for_any_lookup_of_any_column(role: str, every: int, rf: RequestFactory) -> None:
    every_model.make()
    assert check(rf, someone(role), every=every) > 5000 / every


def test_every_filter_of_every_list_is_decided_and_works(rf: RequestFactory) -> None:
    every_model.make()
    user = someone("superuser")
    for name, its_page in pages():
        decided = OFFERED.get(name, set())
        for parameter in decided:
            value = "2026-11-28" if parameter.startswith(("day__g", "day__l")) else "1"
            assert answers(its_page, request_of(rf, user, **{parameter: value})), f"{name}?{parameter}"
        found = its_page.get_changelist_instance(request_of(rf, user))
        declared = {
            p for spec in found.get_filters(request_of(rf, user))[0] for p in spec.expected_parameters()
        }
        assert declared <= decided, f"decide on the filters of {name}"


def test_a_filter_with_a_value_is_applied_also_while_it_has_none_to_offer(rf: RequestFactory) -> None:
    """An action on all that match must not be one on all there are."""
    made, user = every_model.make(), someone("superuser")
    for name, column in (("attempt", "error_kind"), ("auditentry", "actor"), ("bulkaction", "verb")):
        its_page = admin.site._registry[type(made[name])]
        if name == "attempt":
            its_page.model.objects.update(error_kind="")
        found = its_page.get_changelist_instance(request_of(rf, user, **{column: "no-such"}))
        assert not found.result_list, name


@pytest.mark.parametrize("query", ["key__regex=%5E((a%2B)%2B)%2B!", "key__iregex=(x%2Bx%2B)%2By"])
@pytest.mark.parametrize("role", [roles.VIEWER, "superuser"])
def test_nobody_hands_a_regular_expression_to_the_database(client: Client, role: str, query: str) -> None:
    every_model.make()
    client.force_login(someone(role))
    with CaptureQueriesContext(connection) as asked:
        assert client.get(f"{page('execution')}?{query}").status_code == 400
    assert not [one for one in asked.captured_queries if "REGEXP" in one["sql"] or " ~ " in one["sql"]]


@pytest.mark.parametrize(
    "query", ["payload__tenant__startswith=S", "q=x&context__icontains=x", "route__limit_keys__gt=a"]
)
def test_no_action_and_no_file_of_a_list_is_narrowed_by_what_it_does_not_offer(
    client: Client, query: str
) -> None:
    made = every_model.make()
    client.force_login(someone("superuser"))
    before = every_model.fingerprint()
    chosen = {"_selected_action": made["execution"].pk, "action": "cancel", "reason": "x"}
    for across in ("0", "1"):
        sent = {**chosen, "select_across": across}
        assert client.post(f"{page('execution')}?{query}", sent).status_code == 400
    for kind in ("csv", "jsonl"):
        export = reverse("admin:queuemgr_auditentry_export", args=[kind])
        assert client.get(f"{export}?before__icontains=x").status_code == 400
    changed = {label for label, digest in every_model.fingerprint().items() if digest != before[label]}
    assert changed == set()


class AnyPage(_ModelAdmin):
    """As an application would write it, with nothing of ours."""

    list_display = ("phase", "weight")
    date_hierarchy = "leased_at"
    search_fields = ("phase",)


def test_a_model_that_is_registered_later_is_guarded_without_doing_anything(rf: RequestFactory) -> None:
    every_model.make()
    import_module(settings.ROOT_URLCONF)
    admin.site.register(Lease, AnyPage)
    try:
        user, its_page = someone("superuser"), admin.site._registry[Lease]
        for lookup in islice(lookups_on(Lease), 0, None, 7):
            dated = lookup in {f"leased_at__{part}" for part in ("gte", "lt", "year")}
            assert dated or not answers(its_page, request_of(rf, user, **{lookup: "2020"})), lookup
        assert answers(its_page, request_of(rf, user, leased_at__year="2020", leased_at__month="1"))
        assert answers(its_page, request_of(rf, user, q="prep"))
    finally:
        admin.site.unregister(Lease)


def test_a_model_that_was_registered_before_is_guarded_too(rf: RequestFactory) -> None:
    every_model.make()
    site = admin.AdminSite("early")
    site.register(Lease, AnyPage)
    guard(site)
    its_page, user = site._registry[Lease], someone("superuser")
    assert answers(its_page, request_of(rf, user, q="prep"))
    assert not answers(its_page, request_of(rf, user, phase__startswith="p"))


def test_a_list_is_sorted_by_its_sortable_columns_only(rf: RequestFactory) -> None:
    user, sorted_by = someone("superuser"), set()
    for name, its_page in pages():
        found, rows = its_page.get_changelist_instance(request_of(rf, user)), its_page.model.objects.all()
        usual = found.get_ordering(None, rows)
        for number, column in enumerate([*found.list_display, "beyond the last"]):
            for asked in (
                f"{number}",
                f"-{number}",
                f"{number}.-{number}",
                f" {number}",
                f"--{number}",
                f"+{number}",
            ):
                found.params["o"] = asked
                if found.get_ordering(None, rows) != usual:
                    sorted_by.add((name, column))
                    assert column in found.sortable_by, (name, asked)
    assert sorted_by == SORTED


SORTED = {
    ("allowanceusage", "starts_at"),
    ("limit", "name"),
    ("webhook", "name"),
    *(("worker", column) for column in ("name", "host", "slots", "started_at", "seen_at")),
    *(("queue", column) for column in ("name", "phase", "priority")),
    *(("schedule", column) for column in ("name", "flow")),
    *(("retrypolicy", column) for column in ("kind", "base_seconds", "ceiling_seconds", "jitter_seconds")),
    *(("user", column) for column in ("username", "email", "first_name", "last_name", "is_staff")),
    ("group", "__str__"),
}


def test_a_row_is_chosen_by_its_primary_key_only(rf: RequestFactory) -> None:
    every_model.make()
    user = someone("superuser")
    for name, its_page in pages():
        for field in its_page.opts.get_fields():
            if field.name == its_page.opts.pk.name:
                continue
            with pytest.raises(DisallowedModelAdminToField):
                its_page.get_changelist_instance(request_of(rf, user, _to_field=field.name))
            assert not its_page.to_field_allowed(request_of(rf, user), field.name), (name, field.name)


@pytest.mark.parametrize("role", [roles.VIEWER, "superuser"])
def test_nothing_is_completed_for_any_foreign_key(client: Client, role: str) -> None:
    """No page of ours completes what is typed."""
    every_model.make()
    client.force_login(someone(role))
    tried = 0
    for _, its_page in pages():
        for field in its_page.opts.get_fields():
            if field.is_relation and field.concrete:
                opts = its_page.opts
                asked = {"app_label": opts.app_label, "model_name": opts.model_name, "field_name": field.name}
                tried += 1
                answer = client.get(reverse("admin:autocomplete"), {**asked, "term": "s"})
                assert answer.status_code == 403, asked
    assert tried > 5


HAVE_A_FORM = ("rate", "resources", "budget_zone", "provider_left")
"""Columns that cannot hold just any text."""


def marked_copies(row: models.Model) -> Iterator[tuple[str, str, Any]]:
    """Copies of a row, one for each of its columns of text, with a text there that nothing else has."""
    opts = type(row)._meta
    unique = {f.name for f in opts.concrete_fields if f.unique}
    unique |= {name for one in opts.total_unique_constraints for name in one.fields}
    free = [f for f in opts.concrete_fields if not f.choices and f.name not in HAVE_A_FORM]
    texts = [f for f in free if isinstance(f, models.CharField | models.TextField)]
    documents = [f for f in opts.concrete_fields if isinstance(f, models.JSONField)]
    for field in (*texts, *documents):
        values = {f.attname: getattr(row, f.attname) for f in opts.concrete_fields if not f.primary_key}
        values |= {f.attname: f"host:{field.name}"[: f.max_length] for f in texts if f.name in unique}
        values |= dict.fromkeys(("batch_id", "batch_seq"), None) if "batch_seq" in values else {}
        values |= {f.attname: uuid4() for f in opts.concrete_fields if isinstance(f, models.UUIDField)}
        mark = f"Zq{field.name}"[: field.max_length]
        values[field.attname] = {mark: mark} if field in documents else mark
        yield field.name, mark, type(row)(**values)


@pytest.mark.parametrize("role", [roles.VIEWER, roles.ADMIN])
def test_a_search_finds_nothing_by_a_text_that_the_pages_of_the_row_hide(
    client: Client, rf: RequestFactory, role: str
) -> None:
    made, user = every_model.make(), someone(role)
    client.force_login(user)
    tried = 0
    for name, its_page in pages():
        is_admins = name in ("apitoken", "group", "user")
        if is_admins != (role == roles.ADMIN):
            continue
        for column, mark, row in marked_copies(made[name]):
            with transaction.atomic():
                row.save()
                tried += 1
                found = found_by(its_page, request_of(rf, user, q=mark))
                by_it = row in found and row not in found_by(its_page, request_of(rf, user, q="Zq-nowhere"))
                assert not by_it or mark in shown_of(client, its_page, row), (name, column)
                transaction.set_rollback(True)
    assert tried > 5


def found_by(its_page: Any, request: Any) -> list[Any]:
    return list(its_page.get_changelist_instance(request).result_list)


def shown_of(client: Client, its_page: Any, row: Any) -> str:
    """The list that this row is in, and its own page."""
    here = f"admin:{its_page.opts.app_label}_{its_page.opts.model_name}"
    answers = client.get(reverse(f"{here}_changelist")), client.get(reverse(f"{here}_change", args=[row.pk]))
    return "".join(answer.content.decode() for answer in answers)
