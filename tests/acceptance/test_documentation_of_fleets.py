"""The tutorial for several machines, followed to the letter on PostgreSQL and Redis."""

from __future__ import annotations

import pytest

from tests.acceptance.documented_project import BROKER, Follow, database_of_shop, follow, read_project

__all__ = ("follow", "read_project")


@pytest.mark.slow_proof
def test_the_tutorial_for_several_machines_does_what_it_says(follow: Follow) -> None:
    with database_of_shop() as variables:
        follow("several_machines.md", "postgres", BROKER_URL=BROKER, **variables)
