"""`python -m bench.schedules`: how long it takes to enqueue what many schedules are due in the same minute.

One process looks once, as a tick does, and nothing runs what it enqueues. The aim of PostgreSQL is 10,000
within 5 s. Half of the schedules have a cron expression of their own, in some time zone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from datetime import timedelta
from statistics import median

from bench import command_line
from bench.child import ROOT
from bench.contestants import fresh, servers

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo", "Australia/Lord_Howe")
POLICIES = ("allow", "skip", "queue one")


def main() -> None:
    parser = command_line.parser("bench.schedules", __doc__, "--count 10000 --rounds 3", "--sqlite")
    parser.add_argument("--count", type=int, default=10_000, help="schedules (default 10000)")
    parser.add_argument("--rounds", type=int, default=3, help="minutes that pass (default 3)")
    parser.add_argument("--sqlite", action="store_true", help="on SQLite instead of PostgreSQL")
    parser.add_argument("--play", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        print(json.dumps(played(options.count, options.rounds)))
        return
    with servers() as (_, postgres, root):
        url = "" if options.sqlite else fresh(postgres)
        environment = {**os.environ, "DATABASE_URL": url, "SLUICE_DATA_DIR": str(root / "data")}
        arguments = ["--play", "--count", str(options.count), "--rounds", str(options.rounds)]
        command = [sys.executable, "-m", "bench.schedules", *arguments]
        done = subprocess.run(command, env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    rounds = json.loads(done.stdout)
    wall, cpu = (median(each[name] for each in rounds) for name in ("seconds", "cpu"))
    each = f"{wall / options.count * 1e6:,.0f} us each"
    print(
        f"{options.count:,} schedules due at once: {wall:.2f} s ({each}), {cpu:.2f} s of our processor time"
    )
    print(f"rounds: {', '.join(format(one['seconds'], '.2f') for one in rounds)} s")


def played(count: int, rounds: int) -> list[dict[str, float]]:
    """Seconds, and processor seconds, of each look."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django

    django.setup()
    from django.core.management import call_command

    from bench import played
    from queuemgr.base.scheduler_lock import database_now
    from queuemgr.models import Execution, Schedule
    from queuemgr.schedules import fire, plan
    from queuemgr.scheduling import limit_rows

    call_command("migrate", verbosity=0)
    limit_rows.sync()
    played.catch_messages()
    start = database_now().replace(second=0, microsecond=0)
    Schedule.objects.bulk_create(
        Schedule(
            name=f"schedule {n}", flow="probe", created_at=start, payload={"number": n},
            overlap=POLICIES[n % 3], timing=_timing(n),
        )
        for n in range(count)
    )  # fmt: skip
    plan.plan_changed(start)
    measured = []
    for number in range(1, rounds + 1):
        now = start + timedelta(minutes=number)
        began, cpu = time.perf_counter(), time.process_time()
        enqueued = 0
        while more := fire.run_due(now):
            enqueued += more
        measured.append({"seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu})
        if enqueued < count // 3 or (number == 1 and enqueued != count):
            raise RuntimeError(f"{enqueued} of {count} were enqueued")
        Execution.objects.update(state="done", finished_at=now, route=None)
    return measured


def _timing(number: int) -> str:
    """Each is due in every minute."""
    if number % 2:
        return "every 1m from start"
    hours = (
        ",".join(str(hour) for hour in range(number % 12, 24)) + "," + ",".join(map(str, range(number % 12)))
    )
    return f"cron * {hours.strip(',')} * * * in {ZONES[number % 5]}"


if __name__ == "__main__":
    main()
