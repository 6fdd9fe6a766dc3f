"""The admin pages, one module each, all of them imported here. Importing them puts none on a site: Django
imports this package wherever the app is installed (`page_registry`)."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
