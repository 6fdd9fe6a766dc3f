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

from proof import report, run_records
from proof.checker import check
from proof.fleet import SETTINGS
from proof.kinds import KINDS
from proof.one_run import RunOptions, run

EXAMPLES = """
examples:
  python -m proof                                     three minutes on PostgreSQL, a seed of its own
  python -m proof --seed 7 --minutes 10               the plan of seed 7
  python -m proof --database sqlite --minutes 1
  python -m proof --faults "lose host,slow link"      only these kinds of faults
  python -m proof --rounds 3 --write docs/proof.md    three seeds, kept and shown on the page
  python -m proof --rounds 0 --write docs/proof.md    only write the page again
  python -m proof --rounds 0 --write docs/proof.md --join elsewhere/proof-runs.json

faults:
"""
EXIT_CODES = "\nexit codes: 0 no violation, 1 some (each is printed), 2 wrong usage\n"


def main() -> int:
    options = _options()
    signal.signal(signal.SIGTERM, _stop)
    first = options.seed if options.seed is not None else secrets.randbelow(10**6)
    violations = sum(_round(first + number, options) for number in range(options.rounds))
    if options.write and (options.join or not options.rounds):
        report.add(options.write, *(run for runs in options.join for run in runs))
    return 1 if violations else 0


def _round(seed: int, options: argparse.Namespace) -> int:
    """Run once; returns the number of violations."""
    print(f"seed {seed}: {options.minutes:g} minutes on {options.database}", flush=True)
    given = {"faults": options.faults, "one_host": options.one_host, "pooler": options.pooler}
    seen = run(RunOptions(seed, options.minutes, options.database, options.keep, **given))
    settings = {**given, "fleet": SETTINGS}
    made = run_records.of(seed, options.minutes, options.database, seen, check(seen), settings)
    print(report.summary(made), flush=True)
    if options.write:
        report.add(options.write, made)
    return len(made.violations)


def _runs(file: str) -> list[run_records.RunReport]:
    try:
        return run_records.read(Path(file))
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{file} holds no runs: {error}") from None


def _stop(signum: int, frame: FrameType | None) -> None:
    """End as after Ctrl-C, so that no process is left behind."""
    raise KeyboardInterrupt


def _kinds(text: str) -> list[str]:
    names, known = [name.strip() for name in text.split(",")], {kind.name for kind in KINDS}
    if unknown := set(names) - known:
        raise argparse.ArgumentTypeError(f"no such fault: {', '.join(sorted(unknown))}")
    return names


def _fault_list() -> str:
    return "".join(f"  {kind.name}{f' (fails: {kind.fails})' if kind.fails else ''}\n" for kind in KINDS)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m proof", description=__doc__, epilog=EXAMPLES + _fault_list() + EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add = parser.add_argument
    add("--seed", type=int, help="the plan (default: a new one each time)")
    add("--minutes", type=float, default=3, help="minutes of faults (default 3)")
    add("--database", choices=("postgres", "sqlite"), default="postgres")
    add("--rounds", type=int, default=1, help="runs, each with the next seed (default 1)")
    add("--faults", type=_kinds, default=[], metavar="LIST", help="only these kinds, separated by commas")
    add("--one-host", action="store_true", help="everything on one host, without network namespaces")
    add(
        "--pooler",
        choices=("session", "transaction"),
        default="",
        help="everyone behind PgBouncer, in this mode",
    )
    add("--write", type=Path, metavar="PAGE", help="keep the runs and write this page")
    add("--join", type=_runs, action="append", default=[], metavar="FILE", help="add the runs stored there")
    add("--keep", type=Path, metavar="FOLDER", help="keep logs and traces here, a folder for each run")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
