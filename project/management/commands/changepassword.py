"""Django's `changepassword`, with an entry in the audit log."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.management.commands import changepassword
from django.contrib.auth.models import User

from queuemgr.cli.output import by_command
from queuemgr.operations import users


class Command(changepassword.Command):
    def handle(self, *args: Any, **options: Any) -> Any:
        message = super().handle(*args, **options)
        by = by_command()
        users.record_password(User.objects.get(username=options["username"] or by.actor), by)
        return message
