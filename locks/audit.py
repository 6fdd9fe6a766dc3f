"""Ask the advisory databases about every locked version: `make audit`.

Exit codes: 0 none is known to be vulnerable, 1 some are, 3 some or all could not be asked about. The last
are never counted as good; pip-audit itself leaves them out and exits with 0.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LOCK = Path(__file__).resolve().parent / "all.txt"
SERVICES = ("pypi", "osv")
"""What pip-audit can ask, in this order; the second only if the first leaves packages out."""

VULNERABLE, COULD_NOT_ASK = 1, 3


@dataclass(frozen=True)
class Answer:
    """What one database said: advisories by package, and who it said nothing about, with the reason."""

    advisories: tuple[str, ...]
    unanswered: tuple[str, ...]
    asked: int

    @property
    def exit_code(self) -> int:
        if self.advisories:
            return VULNERABLE
        return COULD_NOT_ASK if self.unanswered or not self.asked else 0


def main() -> int:
    for service in SERVICES:
        said = ask(service)
        answer = read(said.stdout)
        print(summary(service, answer, said.stderr))
        if answer.exit_code != COULD_NOT_ASK:
            break
    return answer.exit_code


def ask(service: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable, "-m", "pip_audit", "--requirement", str(LOCK), "--require-hashes", "--no-deps",
            "--disable-pip", "--progress-spinner=off", "--format=json", f"--vulnerability-service={service}",
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def read(output: str) -> Answer:
    """The answer in pip-audit's JSON; no JSON is no answer."""
    try:
        packages = json.loads(output)["dependencies"]
    except (ValueError, KeyError):
        return Answer((), (), 0)
    found = [
        f"{p['name']} {p['version']}: {line}" for p in packages for line in map(_line, p.get("vulns", ()))
    ]
    skipped = [f"{p['name']}: {p['skip_reason']}" for p in packages if "skip_reason" in p]
    return Answer(tuple(found), tuple(skipped), len(packages))


def _line(advisory: dict[str, Any]) -> str:
    return f"{advisory['id']}, fixed in {', '.join(advisory.get('fix_versions') or ['no version yet'])}"


def summary(service: str, answer: Answer, errors: str) -> str:
    lines = list(answer.advisories)
    if not answer.asked:
        lines += [
            f"{service}: could not be asked ({errors.strip().rpartition(chr(10))[2] or 'it gave no answer'})"
        ]
    elif answer.unanswered:
        missing = f"{len(answer.unanswered)} of {answer.asked}"
        lines += [f"{service}: says nothing about {missing} packages: {answer.unanswered[0]}"]
    elif not answer.advisories:
        lines += [f"{service}: none of {answer.asked} packages has a known vulnerability"]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
