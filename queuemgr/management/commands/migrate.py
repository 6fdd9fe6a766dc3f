"""Django's `migrate`, which also makes the roles that are missing."""

from __future__ import annotations

from typing import Any

from django.core.management.commands import migrate

from queuemgr.operations import roles


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        super().handle(*args, **options)
        whole = not (options["app_label"] or options["plan"] or options["check_unapplied"])
        made = roles.make() if whole else []
        if made and options["verbosity"]:
            self.stdout.write(f"Roles made: {', '.join(made)}")
