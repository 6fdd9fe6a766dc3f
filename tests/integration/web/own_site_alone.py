"""The addresses of a project with a site of ours and no API."""

from django.urls import path

import queuemgr.web

urlpatterns = [path("queue/", queuemgr.web.site.urls)]
