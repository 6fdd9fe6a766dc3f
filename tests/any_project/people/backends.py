"""Who logs in: as in any project; accounts that have no permissions of their own are asked here."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import BaseBackend, ModelBackend

from tests.any_project.people.models import KIND


class Backend(ModelBackend if KIND in ("stock", "email", "uuid") else BaseBackend):
    """Logs accounts in; those that have no permissions of their own are asked whether they are admins."""

    def authenticate(self, request: Any, username: Any = None, password: Any = None, **more: Any) -> Any:
        return ModelBackend().authenticate(request, username, password, **more)

    def get_user(self, user_id: Any) -> Any:
        return ModelBackend().get_user(user_id)

    if KIND == "bare":

        def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
            return bool(user_obj.is_admin)
