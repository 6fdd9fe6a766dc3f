"""`python -m bench.provider`: how much of a provider's limits two workers use, and how often it says 429.

A provider (llmock) that allows 60 requests and 30,000 tokens a minute, refilled evenly, and refuses what goes
beyond with 429. Two worker processes send it 200 requests of some 800 tokens, so that tokens bind: through
the queue, with the same two allowances, and with plain Celery, whose workers have a `rate_limit` and sleep as
long as the provider says. The first request starts the clock, the last answer stops it. PostgreSQL, Redis.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.child import ROOT
from bench.command_line import parser
from bench.contestants import broker, fresh
from bench.databases import postgres
from queuemgr.local.private_servers import RedisServer, free_port, wait_for_port

REQUESTS, TOKENS = 60, 30_000
"""A minute."""

LONGEST = 1200
"""Seconds after which a run that has not ended counts as stuck."""

WORKERS, SLOTS = 2, 20


@dataclass(frozen=True)
class Run:
    """One contestant: requests answered and refused, tokens charged, seconds from the first request to the
    last answer, and the processor seconds of its workers."""

    answered: int
    refused: int
    tokens: int
    seconds: float
    processor: float

    @property
    def share(self) -> float:
        """Of the tokens that the provider would have allowed meanwhile: a full bucket, and what refills."""
        return self.tokens / (TOKENS + TOKENS / 60 * self.seconds)

    @classmethod
    def of(cls, trace: Path, processor: float) -> Run:
        lines: list[dict[str, Any]] = [json.loads(line) for line in trace.read_text().splitlines()]
        answered = [line for line in lines if line["status"] == 200]
        seconds = max(line["ended"] for line in answered) - min(line["began"] for line in lines)
        refused = sum(line["status"] == 429 for line in lines)
        return cls(len(answered), refused, sum(line["tokens"] for line in answered), seconds, processor)


@contextmanager
def provider() -> Iterator[str]:
    """The URL of an endpoint with full buckets."""
    port = free_port()
    command = [sys.executable, "-m", "llmock.cli", "serve", "--port", str(port), "--host", "127.0.0.1"]
    command += ["--rpm", str(REQUESTS), "--tpm", str(TOKENS), "--latency-ms", "300", "--log-level", "error"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for_port(port, process)
        yield f"http://127.0.0.1:{port}/v1/chat/completions"
    finally:
        process.terminate()
        process.wait(20)


def words_of(count: int) -> list[int]:
    """Prompts of 70 to 230 words: 700 to 900 tokens with their answers."""
    draw = random.Random(20261130)
    return [draw.randrange(70, 230, 2) for _ in range(count)]


def queued(count: int, environment: Mapping[str, str]) -> Run:
    _manage(environment, "migrate", "--verbosity", "0")
    calls = f"{{'words': n}} for n in {words_of(count)}"
    call = f"from bench.model.tasks import ask; ask.enqueue_many({calls})"
    _manage(environment, "shell", "-c", call)
    command = [sys.executable, "-m", "django", "worker", "--slots", str(SLOTS)]
    return _measure([[*command, "--name", f"w{n}"] for n in range(WORKERS)], count, environment)


def plain(count: int, environment: Mapping[str, str]) -> Run:
    environment = {k: v for k, v in environment.items() if k != "DJANGO_SETTINGS_MODULE"}
    publish = f"from bench.model.plain import ask\nfor n in {words_of(count)}: ask.delay(n)"
    subprocess.run([sys.executable, "-c", publish], env=dict(environment), cwd=ROOT, check=True)
    command = [sys.executable, "-m", "celery", "-A", "bench.model.plain", "worker", "-P", "threads"]
    command += ["-c", str(SLOTS), "-Q", "plain", "-l", "ERROR"]
    return _measure([[*command, "-n", f"w{n}@%h"] for n in range(WORKERS)], count, environment)


def _measure(commands: Sequence[list[str]], count: int, environment: Mapping[str, str]) -> Run:
    trace = Path(environment["MODEL_TRACE"])
    with ExitStack() as stack:
        processes = [stack.enter_context(_worker(command, environment)) for command in commands]
        deadline = time.monotonic() + LONGEST
        while not trace.exists() or trace.read_text().count('"status": 200') < count:
            if ended := [process.args for process in processes if process.poll() is not None]:
                raise ChildProcessError(f"ended before its work: {ended[0]}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"not {count} answers within {LONGEST} s")
            time.sleep(0.5)
        processor = sum(_processor(process) for process in processes)
    return Run.of(trace, processor)


@contextmanager
def _worker(command: list[str], environment: Mapping[str, str]) -> Iterator[psutil.Popen]:
    process = psutil.Popen(
        command, env=dict(environment), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def _processor(process: psutil.Popen) -> float:
    times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return float(sum(each.user + each.system for each in times))


def _manage(environment: Mapping[str, str], *arguments: str) -> None:
    command = [sys.executable, "-m", "django", *arguments]
    subprocess.run(command, env=dict(environment), cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    line = parser("bench.provider", __doc__, "", "--count 100")
    line.add_argument("--count", type=int, default=200, help="requests of each contestant (default 200)")
    count = line.parse_args().count
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} at the start, {count} requests")
    print("| | answers | 429 | tokens | seconds | share of the tokens allowed | CPU s |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        with postgres(root / "postgres") as server:
            for name, contestant in (("Sluicegate", queued), ("plain Celery", plain)):
                with broker(root / f"redis-{contestant.__name__}") as redis, provider() as url:
                    environment = _environment(root / contestant.__name__, redis, url) | {
                        "MODEL_DATABASE": fresh(server).rpartition("/")[2],
                        "MODEL_DATABASE_PORT": str(server.port),
                        "MODEL_DATABASE_PASSWORD": server.password,
                    }
                    run = contestant(count, environment)
                print(f"| {name} | {run.answered} | {run.refused} | {run.tokens:,} | {run.seconds:.0f} "
                      f"| {run.share:.3f} | {run.processor:.1f} |", flush=True)  # fmt: skip


def _environment(directory: Path, redis: RedisServer, url: str) -> dict[str, str]:
    directory.mkdir()
    return {
        **os.environ, "DJANGO_SETTINGS_MODULE": "bench.model.settings", "BROKER_URL": redis.url,
        "MODEL_URL": url, "MODEL_TRACE": str(directory / "trace"), "SLUICE_DATA_DIR": str(directory / "data"),
        "SLUICE_DAILY_BUDGET": "0",
    }  # fmt: skip


if __name__ == "__main__":
    main()
