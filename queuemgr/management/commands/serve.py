"""`manage.py serve`: the admin, the API, metrics and health checks over HTTP."""

from __future__ import annotations

import os
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from queuemgr.base.errors import MissingExtra
from queuemgr.base.private_memory import keep_private
from queuemgr.base.program_secrets import keep_secrets_in_memory
from queuemgr.cli.arguments import port, positive
from queuemgr.cli.exit_codes import COULD_NOT


class Command(BaseCommand):
    help = (
        "Serve the admin, the API, metrics and health checks over HTTP, behind a proxy or directly. "
        "Slow clients hold up nobody: a request takes a thread when the whole of it has come."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
        parser.add_argument(
            "--port",
            type=port,
            default=os.environ.get("PORT", "8000"),
            help="port (default: the environment variable PORT, else 8000)",
        )
        parser.add_argument("--threads", type=positive, default=8, help="threads that make pages (default 8)")
        parser.add_argument("--access-log", action="store_true", help="log each request, without its query")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            from queuemgr.web.server import WebOptions, serve
        except MissingExtra as error:
            raise CommandError(f"{error}", returncode=COULD_NOT) from None
        keep_private()
        keep_secrets_in_memory()
        chosen = WebOptions(options["host"], options["port"], options["threads"], options["access_log"])
        try:
            serve(chosen)
        except (OSError, OverflowError) as error:
            reason = f"cannot listen on {chosen.host}:{chosen.port}: {error}"
            raise CommandError(reason, returncode=COULD_NOT) from None
