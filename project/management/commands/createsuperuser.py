"""Django's `createsuperuser`, with an entry in the audit log."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.management.commands import createsuperuser
from django.contrib.auth.models import User
from django.db.models import Max

from queuemgr.cli.output import by_command
from queuemgr.operations import users


class Command(createsuperuser.Command):
    def handle(self, *args: Any, **options: Any) -> Any:
        newest = User.objects.aggregate(pk=Max("pk"))["pk"] or 0
        message = super().handle(*args, **options)
        for user in User.objects.filter(pk__gt=newest, is_superuser=True):
            users.record("add", user, {}, by_command())
        return message
