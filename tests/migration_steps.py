"""Migrations one after the other, also those that a new database does in one."""

from __future__ import annotations

from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader


class StepLoader(MigrationLoader):
    """Knows no migration that replaces others."""

    def load_disk(self) -> None:
        super().load_disk()
        self.disk_migrations = {
            key: migration for key, migration in self.disk_migrations.items() if not migration.replaces
        }


def step_executor() -> MigrationExecutor:
    executor = MigrationExecutor(connection)
    executor.loader = StepLoader(connection)
    return executor


def newest() -> list[tuple[str, str]]:
    leaves: list[tuple[str, str]] = StepLoader(connection).graph.leaf_nodes("queuemgr")
    return leaves


def migrate_to(*targets: tuple[str, str | None]) -> None:
    step_executor().migrate(list(targets))
