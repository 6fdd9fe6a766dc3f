"""The API, health checks and metrics, for `include("queuemgr.web.urls")`."""

from django.urls import path

from queuemgr.web.api.v1 import api
from queuemgr.web.health import healthz, live, progress, ready
from queuemgr.web.metrics.view import metrics

urlpatterns = [
    path("api/v1/", api.urls),
    path("healthz", healthz),
    path("health/live", live),
    path("health/ready", ready),
    path("health/progress", progress),
    path("metrics", metrics),
]
