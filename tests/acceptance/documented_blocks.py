"""Every block of code and commands that the documentation shows, and what runs it.

`python -m tests.acceptance.documented_blocks` lists them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.acceptance.documented_page import Block, Page
from tests.compose_file import ROOT

CODE = ("python", "pycon", "console", "bash", "sh", "ini")
ACCEPTANCE, SERVICES = "tests/acceptance/test_documentation.py", "tests/services/test_documented_services.py"

TOGETHER = (
    "docs/operate.md", "docs/batches.md", "docs/async.md", "docs/configuration.md", "docs/schedules.md",
    "docs/signals.md", "docs/uniqueness.md", "docs/webhooks.md", "docs/costs.md", "docs/alerts.md",
)  # fmt: skip
"""Pages that one process runs in one project (documented_shell.py); others are followed in a terminal."""

RUN_BY = {
    "README.md": "tests/unit/docs/test_readme.py::test_the_quick_start_of_the_readme_is_the_one_that_is_run",
    "docs/api.md": (
        "tests/integration/web/api/test_api_docs.py::"
        "test_every_example_runs_in_order_and_prints_what_the_page_says"
    ),
    "docs/quick_start.md": f"{ACCEPTANCE}::test_the_quick_start_leads_to_the_first_limited_task",
    "docs/web_pages.md": f"{ACCEPTANCE}::test_the_pages_join_a_project_by_a_line",
    **dict.fromkeys(TOGETHER, f"{ACCEPTANCE}::test_pages_do_what_they_say_in_one_project"),
    **{
        f"docs/tutorials/{name}.md": f"{ACCEPTANCE}::test_a_tutorial_does_what_it_says"
        for name in ("limit_an_api", "testing")
    },
    **{
        f"docs/tutorials/{name}.md": f"{ACCEPTANCE}::test_a_tutorial_of_operation_does_what_it_says"
        for name in (
            "daily_budget", "spend_dollars", "several_steps", "rolling_deploys", "backup_and_restore",
        )
    },
    **{
        f"docs/tutorials/{name}.md": (
            f"{ACCEPTANCE}::test_a_tutorial_of_periodic_unique_or_many_calls_does_what_it_says"
        )
        for name in ("nightly_import", "debounce", "map_reduce")
    },
    "docs/tutorials/from_celery.md": f"{ACCEPTANCE}::test_tasks_of_celery_move_by_a_line",
    "docs/tutorials/from_django_tasks.md": f"{ACCEPTANCE}::test_tasks_of_django_move_by_a_setting",
    "docs/tutorials/several_machines.md": (
        f"{ACCEPTANCE}::test_the_tutorial_for_several_machines_does_what_it_says"
    ),
    **{f"docs/tutorials/{name}.md": SERVICES for name in ("pgbouncer", "rabbitmq", "s3")},
}  # fmt: skip
"""The test that runs the blocks of a page, but for those that say why they are not run."""


@dataclass(frozen=True)
class Shown:
    """A block of a page."""

    page: str
    block: Block

    @property
    def run_by(self) -> str:
        """The test that runs it; empty for none."""
        return RUN_BY.get(self.page, "") if self.is_runnable and not self.block.why_not else ""

    @property
    def is_runnable(self) -> bool:
        """Whether it is what the test of its page runs."""
        block = self.block
        if block.language in ("console", "bash", "sh"):
            return bool(block.commands)
        return bool(block.caption) or block.language == "pycon" or self.page in (*TOGETHER, "README.md")

    def __str__(self) -> str:
        by = self.run_by or f"not run: {self.block.why_not or 'NOBODY SAYS WHY'}"
        return f"{self.page}:{self.block.line}  {self.block.language}  {by}"


def pages() -> list[Path]:
    """All of them; the changelog shows none."""
    return [
        *sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md")), ROOT / "compose" / "README.md",
    ]  # fmt: skip


def shown() -> Iterator[Shown]:
    for path in pages():
        for block in Page(path).blocks:
            if block.language in CODE:
                yield Shown(str(path.relative_to(ROOT)), block)


if __name__ == "__main__":
    print(*shown(), sep="\n")
