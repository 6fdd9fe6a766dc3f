"""Daily usage: requests spent, by day and phase."""

from __future__ import annotations

from django.contrib import admin

from queuemgr.admin.filters import PhaseFilter
from queuemgr.admin.read_only import ReadOnlyAdmin
from queuemgr.models import DailyUsage


@admin.register(DailyUsage)
class DailyUsageAdmin(ReadOnlyAdmin):
    list_display = ("day", "phase", "spent")
    list_filter = (PhaseFilter,)
