"""The addresses of a project with our API and no pages."""

from django.urls import include, path

urlpatterns = [path("internal/", include("queuemgr.web.urls"))]
