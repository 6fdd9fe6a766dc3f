"""Documents in the admin: to be read, with links to their files; steps alone write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html, format_html_join

from pipeline.models import Document
from pipeline.views import KINDS

if TYPE_CHECKING:
    _DocumentAdmin = admin.ModelAdmin[Document]
else:
    _DocumentAdmin = admin.ModelAdmin

NAMES = {"pdf": "PDF", "text": "text", "report": "report", "json": "JSON"}


@admin.register(Document)
class DocumentAdmin(_DocumentAdmin):
    list_display = ("key", "title", "pages", "references", "method", "problem", "files")
    list_filter = ("kind", "method")
    search_fields = ("key__startswith", "title__istartswith")
    search_help_text = "beginning of a key or a title"
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    readonly_fields = ("files", "execution")

    class Media:
        css = {"all": ("queuemgr/lists.css",)}

    def get_readonly_fields(self, request: Any, obj: Any = None) -> list[str]:
        columns = [field.name for field in Document._meta.fields]
        return [*columns, *self.readonly_fields]

    def has_add_permission(self, request: Any) -> bool:
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    @admin.display(description="files")
    def files(self, document: Document) -> str:
        made = [kind for kind, (field, _) in KINDS.items() if getattr(document, field)]
        links = ((reverse("artifact", args=[document.pk, kind]), NAMES[kind]) for kind in made)
        return format_html_join(" ", '<a href="{}">{}</a>', links)

    @admin.display(description="execution")
    def execution(self, document: Document) -> str:
        url = reverse("admin:queuemgr_execution_changelist")
        return format_html('<a href="{}?q={}">{}</a>', url, document.key, document.key)
