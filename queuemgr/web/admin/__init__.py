"""The admin pages, one module each; a module registers its page when it is imported, as all are here."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from django.contrib import admin

from queuemgr.web.guarded_site import guard

guard(admin.site)

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

admin.site.index_title = "Dashboard"
