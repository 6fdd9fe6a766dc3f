"""Django's `createsuperuser`, recorded as every change by a person is."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.management.commands import createsuperuser
from django.contrib.auth.models import User
from django.db.models import Max

from queuemgr.cli.output import by_command
from queuemgr.operations import users


class Command(createsuperuser.Command):
    def handle(self, *args: Any, **options: Any) -> Any:
        highest = User.objects.aggregate(highest=Max("pk"))["highest"] or 0
        said = super().handle(*args, **options)
        for user in User.objects.filter(pk__gt=highest, is_superuser=True):
            users.record("add", user, {}, by_command())
        return said
