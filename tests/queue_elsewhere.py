"""A program of two databases, for `test_queue_database`: `default` and the queue's, of kinds that it is told.

    python -m tests.queue_elsewhere '{"default": {...}, "queue": {...}}'

It prints what it found as one JSON object.
"""

from __future__ import annotations

import json
import sys
import unittest
from typing import Any

import django
from django.conf import settings


class SendsAllToDefault:
    """A router of the project, which knows nothing of the queue."""

    def db_for_read(self, model: Any, **hints: Any) -> str:
        return "default"

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        return db == "default"


def main() -> None:
    settings.configure(
        DATABASES=json.loads(sys.argv[1]),
        DATABASE_ROUTERS=["tests.queue_elsewhere.SendsAllToDefault"],
        INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "queuemgr"],
        SLUICE_DATABASE="queue", USE_TZ=True, CELERY_BROKER_URL="memory://",
    )  # fmt: skip
    django.setup()
    print(json.dumps(Found().all()))


class Found:
    def __init__(self) -> None:
        from django.core.management import call_command

        from queuemgr import queued

        for alias in ("queue", "default"):
            call_command("migrate", database=alias, verbosity=0)

        def send(host: str) -> str:
            return host

        self.send = queued(name="mail.send", limits={"host:{host}": 2})(send)

    def all(self) -> dict[str, Any]:
        return {
            "tables": self.tables(),
            "messages": self.messages(),
            "joins": {
                f"{alias} {'kept' if keep else 'rolled back'} {name}": self.enqueued(
                    alias, enqueue, keep=keep
                )
                for alias in ("default", "queue")
                for keep in (True, False)
                for name, enqueue in (("call", self.call), ("calls", self.calls), ("item", self.item))
            },
            "in a TestCase": self.in_a_test_case(),
            "owner": self.token_of_an_account(),
        }

    def tables(self) -> dict[str, list[str]]:
        from django.db import connections

        names = {alias: connections[alias].introspection.table_names() for alias in ("default", "queue")}
        return {alias: sorted({n.partition("_")[0] for n in found}) for alias, found in names.items()}

    def messages(self) -> list[str]:
        from django.core import checks

        found = checks.run_checks(databases=["default", "queue"])
        return sorted({message.id for message in found} - {"queuemgr.W023"})

    def call(self) -> None:
        self.send.enqueue("a")

    def calls(self) -> None:
        self.send.enqueue_many([{"host": "a"}, {"host": "b"}])

    def item(self) -> None:
        from queuemgr import enqueue

        enqueue("mail.send", key=f"key-{self.executions()}", payload={"host": "c"})

    def executions(self) -> int:
        from queuemgr.models import Execution

        return Execution.objects.count()

    def enqueued(self, alias: str, enqueue: Any, *, keep: bool) -> int:
        """How many are there after a transaction of this alias that enqueued was committed or rolled back."""
        from django.contrib.auth.models import Group
        from django.db import transaction

        before = self.executions()
        with transaction.atomic(using=alias):
            Group.objects.using("default").get_or_create(name=f"{alias}{keep}{before}")
            enqueue()
            if not keep:
                transaction.set_rollback(True, using=alias)
        return self.executions() - before

    def in_a_test_case(self) -> list[str]:
        from django.test import TestCase

        from queuemgr.testing import run_due

        send = self.send

        class Test(TestCase):
            databases = {"default", "queue"}

            def test(self) -> None:
                handle = send.enqueue("tested")
                run_due()
                self.assertEqual(handle.result(timeout=0), "tested")

        before, result = self.executions(), unittest.TestResult()
        unittest.TestSuite([Test("test")]).run(result)
        left = [f"{self.executions() - before} left behind"] if self.executions() != before else []
        return [*(text for _, text in (*result.errors, *result.failures)), *left]

    def token_of_an_account(self) -> str:
        """The owner of a token is an account of the other database."""
        from django.contrib.auth.models import User

        from queuemgr.models import ApiToken

        fields = {f.name for f in ApiToken._meta.fields}
        owner = User.objects.create(username="ann")
        token = ApiToken(owner=owner, **({"name": "ci"} if "name" in fields else {}))
        token.save()
        return str(ApiToken.objects.get(pk=token.pk).owner.get_username())


if __name__ == "__main__":
    main()
