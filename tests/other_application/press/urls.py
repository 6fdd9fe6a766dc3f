from django.contrib import admin
from django.urls import include, path

from queuemgr.web import join_site

join_site(admin.site)
urlpatterns = [path("admin/", admin.site.urls), path("", include("queuemgr.web.urls"))]
