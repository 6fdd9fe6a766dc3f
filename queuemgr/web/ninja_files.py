"""The files of the API's page, which are django-ninja's: its templates and static files.

A project lists `queuemgr.web.ninja_files.NinjaFiles` instead of `ninja`, so that workers and commands, which
have no pages, do not import it.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from django.apps import AppConfig

from queuemgr.base.extras import need_extra

need_extra("web", "ninja")


def _folder_of_ninja() -> str:
    found = find_spec("ninja")
    return str(Path(str(found and found.origin)).parent)


class NinjaFiles(AppConfig):
    name = "queuemgr.web.ninja_files"
    label = "queuemgr_ninja_files"
    verbose_name = "Files of the API's page"
    path = _folder_of_ninja()
