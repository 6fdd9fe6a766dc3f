"""The addresses of a project that has none of our pages."""

urlpatterns: list[object] = []
