"""Saved views: the filters, search and order of a list of the admin, kept under a name."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from queuemgr.base.column_sizes import LONGEST_ACTOR

MAX_VIEW_NAME = 80
MAX_VIEW_QUERY = 2_000


class SavedView(models.Model):
    """What a list shows, as the query string of its page has it. `shared`: everybody who may see the list
    sees the view; otherwise only its owner, known by the key of the account."""

    list = models.CharField(max_length=100, help_text="The model whose list it is, as app.model.")
    name = models.CharField(max_length=MAX_VIEW_NAME)
    owner_key = models.CharField(max_length=LONGEST_ACTOR)
    owner = models.CharField(max_length=LONGEST_ACTOR, help_text="The name of the owner when it was saved.")
    query = models.CharField(max_length=MAX_VIEW_QUERY, blank=True)
    shared = models.BooleanField(default=False)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ("name", "id")
        permissions = (("share_savedview", "Can share views of lists"),)
        constraints = (
            models.UniqueConstraint(fields=("list", "owner_key", "name"), name="one_view_of_each_name"),
            models.UniqueConstraint(
                fields=("list", "name"), condition=Q(shared=True), name="one_shared_view_of_each_name"
            ),
        )

    def __str__(self) -> str:
        return self.name
