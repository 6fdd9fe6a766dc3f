"""Write what of docs/commands.md, concepts.md, configuration.md and operate.md is made of the code.

python docs/make_pages.py
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import django

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    sys.path.insert(0, str(ROOT))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    from docs import commands_page, configuration_page, limit_fields_table

    pages = {commands_page.PAGE: commands_page.page, configuration_page.PAGE: configuration_page.page}
    for path, made in {**pages, **limit_fields_table.PAGES}.items():
        path.write_text(made(path.read_text()))


if __name__ == "__main__":
    main()
