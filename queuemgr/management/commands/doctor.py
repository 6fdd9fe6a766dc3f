"""`manage.py doctor`: problems of this installation, with remedies."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from queuemgr.base.safe_text import safe_text
from queuemgr.flows.flow import CheckResult
from queuemgr.local import doctor

LABELS = {"good": "ok  ", "note": "note", "bad": "BAD "}


class Command(BaseCommand):
    help = "Check this installation and name a remedy for each problem. Exit code 1 if there is one."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object per check")

    def handle(self, *args: Any, **options: Any) -> None:
        bad = 0
        for result in doctor.run_checks():
            bad += result.level == "bad"
            self.stdout.write(json.dumps(asdict(result)) if options["json"] else safe_text(_line(result)))
        if bad:
            raise SystemExit(1)


def _line(result: CheckResult) -> str:
    remedy = f": {result.remedy}" if result.remedy else ""
    return f"{LABELS[result.level]}  {result.what}{remedy}"
