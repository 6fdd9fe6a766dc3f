"""What a step is expected to use of a meter, where it does not say."""

from __future__ import annotations

from uuid import uuid4

import pytest

from queuemgr.models import Attempt, Route
from tests.integration.scheduling.limited_work import Played, Probes, spend

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("rows_of_limits")]


def test_an_estimate_left_to_us_is_what_nine_of_ten_used_lately(played: Played, probes: Probes) -> None:
    worker = played(slots=50)
    probes(20, uses={"tokens": 1}, prefix="known")
    for number, grant in enumerate(worker.begin_all()):
        spend(grant, tokens=100 * (number + 1))
        worker.end(grant, next_too=False)
    probes(1, uses={"tokens": None}, prefix="new")
    assert Route.objects.filter(uses="tokens=1800").exists(), "of 100, 200, … 2,000"


def test_the_estimate_of_a_rare_step_is_of_what_it_used_itself_however_much_others_did_since(
    played: Played, probes: Probes
) -> None:
    worker = played(slots=1)
    probes(1, uses={"tokens": 1}, prefix="rare")
    (grant,) = worker.begin_all()
    spend(grant, tokens=420)
    worker.end(grant, next_too=False)
    ended = Attempt.objects.get()
    names = [
        field.name for field in Attempt._meta.fields if field.name not in ("id", "lease_id", "flow", "uses")
    ]
    same = {name: getattr(ended, name) for name in names}
    Attempt.objects.bulk_create(
        Attempt(lease_id=uuid4(), flow="another", uses="tokens=9", **same) for _ in range(6_000)
    )
    probes(1, uses={"tokens": None}, prefix="new")
    assert Route.objects.filter(uses="tokens=420").exists()
