"""Daily usage: requests spent, by day and limit."""

from __future__ import annotations

from django.contrib import admin

from queuemgr.admin.read_only import ReadOnlyAdmin
from queuemgr.models import DailyUsage


@admin.register(DailyUsage)
class DailyUsageAdmin(ReadOnlyAdmin):
    list_display = ("day", "limit", "spent")
    search_fields = ("limit",)
