"""The admin of this installation: the queue's pages beside users and groups with an audit log, and Celery's
results. All of it is guarded."""

from __future__ import annotations

from django.contrib import admin

from project.admin import celery_results, users
from queuemgr.web import join_site
from queuemgr.web.admin.login import LoginForm
from queuemgr.web.guarded_site import guard

guard(admin.site)
join_site(admin.site)
admin.site.index_title = "Dashboard"
admin.site.login_form = LoginForm

__all__ = ("celery_results", "users")
