from __future__ import annotations

from django.contrib import admin

from tests.any_project.people.models import KIND, Order


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("number", "note")
    list_filter = ("note",)
    search_fields = ("number",)


if KIND in ("email", "uuid"):
    from tests.any_project.people.models import Person

    admin.site.register(Person)
