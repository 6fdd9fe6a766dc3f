"""Real processes under random faults, and a checker that imports nothing of the code: is any promise
broken?

The seed is printed first; the same seed repeats the plan of faults and edits.
"""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
from pathlib import Path
from types import FrameType

from proof import report
from proof.checker import check
from proof.one_run import RunOptions, run

EXAMPLES = """
examples:
  python -m proof                                     three minutes on PostgreSQL, a seed of its own
  python -m proof --seed 7 --minutes 10               the plan of seed 7
  python -m proof --database sqlite --minutes 1
  python -m proof --rounds 3 --write docs/proof.md    three seeds, kept and shown on the page
  python -m proof --rounds 0 --write docs/proof.md    only write the page again

exit codes: 0 no violation, 1 some (each is printed), 2 wrong usage
"""


def main() -> int:
    options = _options()
    signal.signal(signal.SIGTERM, _stop)
    first = options.seed if options.seed is not None else secrets.randbelow(10**6)
    violations = sum(_round(first + number, options) for number in range(options.rounds))
    if options.write and not options.rounds:
        options.write.write_text(report.written(report.read(options.write)))
    return 1 if violations else 0


def _round(seed: int, options: argparse.Namespace) -> int:
    """Run once; returns the number of violations."""
    print(f"seed {seed}: {options.minutes:g} minutes on {options.database}", flush=True)
    seen = run(RunOptions(seed, options.minutes, options.database, options.keep))
    made = report.of(seed, options.minutes, options.database, seen, check(seen))
    print(report.summary(made), flush=True)
    if options.write:
        report.add(options.write, made)
    return len(made.violations)


def _stop(signum: int, frame: FrameType | None) -> None:
    """End as after Ctrl-C, so that no process is left behind."""
    raise KeyboardInterrupt


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m proof", description=__doc__, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--seed", type=int, help="the plan (default: a new one each time)")
    parser.add_argument("--minutes", type=float, default=3, help="minutes of faults (default 3)")
    parser.add_argument("--database", choices=("postgres", "sqlite"), default="postgres")
    parser.add_argument("--rounds", type=int, default=1, help="runs, each with the next seed (default 1)")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="keep the runs and write this page")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep logs and traces here, a folder for each run"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
