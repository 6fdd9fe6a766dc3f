from django.contrib import admin
from django.urls import path

from queuemgr.web.api.v1 import api
from queuemgr.web.health import progress
from queuemgr.web.metrics.view import metrics

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/v1/", api.urls),
    path("health/progress", progress),
    path("metrics", metrics),
]
