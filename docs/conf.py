"""How Sphinx makes the site: `make docs`."""

from __future__ import annotations

import sys
from pathlib import Path

import django
from django.conf import settings

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "site")]

settings.configure(
    INSTALLED_APPS=[
        "unfold",
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "queuemgr",
        "queuemgr.web",
    ],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    USE_TZ=True,
)
django.setup()  # modules of the Python API define models

project = "Sluicegate"
author = "the authors of Sluicegate"
copyright = author
extensions = ["myst_parser", "sphinx.ext.autodoc", "links", "docstrings"]
root_doc = "index"
exclude_patterns = ["README.md", "site", "*.py", "**/__pycache__"]

myst_enable_extensions = ["attrs_inline", "colon_fence"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

default_role = "literal"
highlight_language = "none"
add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
# Types in signatures are those of other projects, and private ones of ours: neither has a page here.
nitpick_ignore_regex = [("py:.*", r".*")]

html_theme = "furo"
html_title = "Sluicegate"
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": False, "top_of_page_buttons": []}
