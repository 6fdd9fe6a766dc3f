"""The admin's login: failures are recorded, and after several the next try has to wait."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from queuemgr.operations import logins, user_model
from queuemgr.web import admin_classes


class LoginForm(admin_classes.LoginForm):
    """Django's, which asks `logins` first, for accounts of any model."""

    def confirm_login_allowed(self, user: Any) -> None:
        super().confirm_login_allowed(user_model.completed(user))

    def clean(self) -> dict[str, Any]:
        username = str(self.cleaned_data.get("username") or "")
        if not username:
            return super().clean()
        address = address_of(self.request) if self.request else ""
        if seconds := logins.seconds_to_wait(username, address):
            raise ValidationError(
                f"Too many failed logins: try again in {-(-seconds // 60)} min.", "throttled"
            )
        try:
            return super().clean()
        except ValidationError:
            logins.record_failure(username, address)
            raise


def address_of(request: HttpRequest) -> str:
    """The client's address: that of the connection, or the one which our own proxy has added last."""
    if settings.SECURE_PROXY_SSL_HEADER and (hops := request.headers.get("X-Forwarded-For")):
        return hops.rpartition(",")[2].strip()
    return str(request.META.get("REMOTE_ADDR", ""))
