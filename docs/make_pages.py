"""Write what of docs/commands.md and docs/configuration.md is made of the code.

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
    from docs import commands_page, configuration_page

    for made in (commands_page, configuration_page):
        made.PAGE.write_text(made.page(made.PAGE.read_text()))


if __name__ == "__main__":
    main()
