"""The accounts of the project: of the one kind that the environment names, and its own rows."""

from __future__ import annotations

import os
import uuid
from typing import Any

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.models import AbstractUser
from django.db import models

KIND = os.environ.get("PEOPLE", "stock")


class Order(models.Model):
    """What the project itself keeps."""

    number = models.CharField(max_length=20)
    note = models.CharField(max_length=200, blank=True)

    def __str__(self) -> str:
        return self.number


class ByEmail(BaseUserManager):
    """Of accounts without a user name; `rights` are the columns that make one a superuser."""

    def __init__(self, *rights: str) -> None:
        super().__init__()
        self.rights = rights

    def create_user(self, email: str, password: str | None = None, **columns: Any) -> Any:
        user = self.model(email=self.normalize_email(email), **columns)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def create_superuser(self, email: str, password: str | None = None, **columns: Any) -> Any:
        return self.create_user(email, password, **dict.fromkeys(self.rights, True), **columns)


if KIND == "email":

    class Person(AbstractUser):
        """Logs in by e-mail, and has no user name."""

        username = None
        email = models.EmailField(unique=True)
        objects = ByEmail("is_staff", "is_superuser")
        USERNAME_FIELD = "email"
        REQUIRED_FIELDS = []

elif KIND == "uuid":

    class Person(AbstractUser):
        """Has a UUID for its key."""

        id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)

elif KIND == "documented":

    class Person(AbstractBaseUser):
        """As Django's documentation makes one without its permissions."""

        email = models.EmailField(unique=True, max_length=255)
        is_active = models.BooleanField(default=True)
        is_admin = models.BooleanField(default=False)
        objects = ByEmail("is_admin")
        USERNAME_FIELD = "email"

        def has_perm(self, perm: str, obj: Any = None) -> bool:
            return self.is_admin

        def has_module_perms(self, app_label: str) -> bool:
            return self.is_admin

        @property
        def is_staff(self) -> bool:
            return self.is_admin

elif KIND == "bare":

    class Person(AbstractBaseUser):
        """Knows nothing of permissions: a backend of the project does. Its key is the e-mail address."""

        email = models.EmailField(primary_key=True, max_length=254)
        is_admin = models.BooleanField(default=False)
        objects = ByEmail("is_admin")
        USERNAME_FIELD = "email"
