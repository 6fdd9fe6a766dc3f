"""The admin's login: failures are recorded, and after several the next try has to wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from queuemgr.operations import logins

if TYPE_CHECKING:
    from django.contrib.admin.forms import AdminAuthenticationForm as _Form
else:
    from unfold.forms import AuthenticationForm as _Form


class LoginForm(_Form):
    """Django's, which asks `logins` first."""

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


admin.site.login_form = LoginForm
