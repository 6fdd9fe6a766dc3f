from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from pipeline.web.collection_view import collection
from pipeline.web.export_view import export
from pipeline.web.page_view import page_picture, paper_page
from pipeline.web.table_view import table, table_file
from pipeline.web.views import artifact
from project.admin.audited_users import own_password
from project.task_compat import schedule, status

admin.autodiscover()

urlpatterns = [
    path("admin/password_change/", admin.site.admin_view(own_password, cacheable=True)),
    path("admin/", admin.site.urls),
    path("papers/", collection, name="collection"),
    path("papers/export", export, name="export_papers"),
    path("papers/table", table, name="table"),
    path("papers/table.<slug:form>", table_file, name="table_file"),
    path("documents/<int:pk>/<slug:kind>", artifact, name="artifact"),
    path("documents/<int:pk>/pages/<int:number>", paper_page, name="paper_page"),
    path("documents/<int:pk>/pages/<int:number>.jpg", page_picture, name="page_picture"),
    path("task", schedule),
    path("task/<uuid:task_id>", status),
    path("", include("queuemgr.web.urls")),
    path("", RedirectView.as_view(pattern_name="admin:index")),
]
