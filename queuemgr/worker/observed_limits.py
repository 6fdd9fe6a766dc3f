"""What a running step observed of a service's limits: reported to the fleet, and named in its failure."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

from django.db import Error as DatabaseError

from queuemgr.base.meters import REQUESTS
from queuemgr.flows.outcomes import Done, Failed, Result, Snoozed
from queuemgr.lifecycle import provider_answers
from queuemgr.steptools.rate_limit_headers import Remaining
from queuemgr.worker.step_usage import StepUsage

logger = logging.getLogger(__name__)


def told_fleet(
    lease_id: UUID, said: Mapping[str, Remaining], sent: float, limit: str, usage: StepUsage
) -> bool:
    """Tell the fleet; false if the lease may be gone. What the database does not accept now is left out: an
    answer that is paid for is not thrown away for it."""
    try:
        answered = provider_answers.reported(lease_id, said, sent, limit)
    except DatabaseError:
        logger.warning("what a service says is left could not be reported to the fleet", exc_info=True)
        return True
    if answered is None:
        return False
    lacking = [
        meter for meter, left in answered.left.items() if left < max(1, answered.reserved.get(meter, 0))
    ]
    usage.lacking = "" if REQUESTS in lacking else next(iter(lacking), ""), limit
    return True


def with_meter(result: Result, lacking: tuple[str, str]) -> Result:
    """The result; a refusal for a rate that names no meter is about what the service had too little of, by
    its latest answer."""
    meter, limit = lacking
    if isinstance(result, Failed):
        of_it = result.kind == "rate_limited" and not result.meter and result.limit in ("", limit)
        return replace(result, meter=meter) if meter and of_it else result
    if isinstance(result, Done | Snoozed) and isinstance(result.service_result, Failed):
        named = with_meter(result.service_result, lacking)
        return replace(result, service_result=named) if named is not result.service_result else result  # type: ignore[arg-type]  # a failure stays one
    return result
