from __future__ import annotations

from django.apps import apps
from django.contrib import admin
from django.urls import include, path

urlpatterns = [path("admin/", admin.site.urls)]
if apps.is_installed("queuemgr.web"):
    import queuemgr.web

    urlpatterns += [path("queue/", queuemgr.web.site.urls), path("internal/", include("queuemgr.web.urls"))]
