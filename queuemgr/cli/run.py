"""`queue run`: a whole fleet on this machine."""

from __future__ import annotations

import signal
from datetime import datetime
from functools import partial
from typing import Any

from queuemgr.base.config import QueueSettings
from queuemgr.base.errors import ConfigurationError
from queuemgr.base.scheduler_lock import database_now
from queuemgr.cli import arguments, config_options, drain
from queuemgr.cli.subcommands import Options, option, subcommand
from queuemgr.flows.flow import all_phases
from queuemgr.local.local_fleet import FleetSpec, running
from queuemgr.models import Attempt, Execution, Outcome
from queuemgr.reporting.stuck import in_words
from queuemgr.scheduling.phase_settings import phase_settings_group


def _add_phases_and_settings(parser: Any) -> None:
    for phase in all_phases():
        parser.add_argument(
            f"--{phase.replace('_', '-')}-only", dest="phases", action="append_const", const=phase,
            default=[], help=f"run only phase {phase}; may be combined",
        )  # fmt: skip
    config_options.add(parser, phase_settings_group())
    config_options.add(parser, QueueSettings, daily_budget="--budget")


@subcommand(
    "run",
    option("--drain", action="store_true", help="exit when no work is left"),
    option("--workers", type=arguments.positive, default=8, help="slots (default 8)"),
    option("--pool", choices=("threads", "prefork"), default="threads", help="default threads"),
    _add_phases_and_settings,
)
def run(options: Options, out: Any) -> int:
    """run a fleet on this machine: workers, beat, and a private broker unless BROKER_URL is set

    queue run --drain --workers 50 --max-{phase} 10
    queue run --drain --budget 20
    queue run --{phase}-only --pool prefork
    exit codes with --drain: 0 all done, 2 some executions failed, 3 could not run,
    4 ended with work left (because of a budget, a pause or drained workers)
    """
    phases = options["phases"]
    forced = config_options.apply(options)
    began = database_now()
    spec = FleetSpec(options["workers"], options["pool"], phases)
    try:
        with running(spec, forced=forced, say=partial(_say, out)) as fleet:
            if not options["drain"]:
                _say(out, f"running {options['workers']} slots; Ctrl-C stops; logs in {fleet.logs}")
                signal.sigwait([signal.SIGINT, signal.SIGTERM])
                return 0
            drained = drain.drain(out, phases, fleet.check)
    except ConfigurationError as error:
        raise ConfigurationError(f"could not run: {error}") from None
    print_summary(drained, began, out)
    return drained.exit_code


def _say(out: Any, line: str) -> None:
    out.write(line)
    out.flush()


def print_summary(drained: drain.Drained, began: datetime, out: Any) -> None:
    """Print the counts of a run, its failures, and what blocked the remaining work. The counts: steps done
    per phase, attempts that ended with another to come, and errors."""
    attempts = Attempt.objects.filter(ended_at__gte=began)
    counts = {phase: attempts.filter(phase=phase, outcome=Outcome.DONE).count() for phase in all_phases()}
    again = (Outcome.RETRIED, Outcome.LOST, Outcome.INTERRUPTED, Outcome.SNOOZED)
    counts["resumed"] = attempts.filter(outcome__in=again).count()
    counts["errors"] = attempts.filter(outcome__in=(Outcome.FAILED, Outcome.RETRIED)).count()
    out.write("  ".join(f"{name} {count}" for name, count in counts.items()))
    for execution in Execution.objects.failed().order_by("pk")[:20]:
        out.write(f"failed: {execution.key}: {execution.error_kind}: {execution.error_message}")
    for line in in_words(drained.stopped):
        out.write(line)
