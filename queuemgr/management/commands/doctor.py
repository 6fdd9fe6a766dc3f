"""`manage.py doctor`: what is wrong with this set-up, and the remedy."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from queuemgr.flows.flow import CheckResult
from queuemgr.local import doctor

SIGNS = {"good": "ok  ", "note": "note", "bad": "BAD "}


class Command(BaseCommand):
    help = (
        "Look for what is wrong with this set-up and say the remedy. Exit code 1 when something is."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object per finding")

    def handle(self, *args: Any, **options: Any) -> None:
        bad = 0
        for finding in doctor.run_checks():
            bad += finding.level == "bad"
            self.stdout.write(json.dumps(asdict(finding)) if options["json"] else _line(finding))
        if bad:
            raise SystemExit(1)


def _line(finding: CheckResult) -> str:
    remedy = f": {finding.remedy}" if finding.remedy else ""
    return f"{SIGNS[finding.level]}  {finding.what}{remedy}"
