"""Registers the flows under proof."""

from __future__ import annotations

from django.apps import AppConfig


class ProofConfig(AppConfig):
    name = "proof.application"
    label = "proof_application"

    def ready(self) -> None:
        from proof.application import flows
        from proof.periodic import MOST_MADE_UP, PERIODIC
        from queuemgr import register_flow
        from queuemgr.schedules import Schedule, register_schedule
        from queuemgr.schedules.timing import parse

        register_flow(flows.HOSTILE)
        register_flow(flows.PATIENT)
        for each in PERIODIC:
            register_schedule(
                Schedule(
                    each.name, "probe", parse(each.timing), payload={"phase": "wrap", "seconds": 0},
                    misfire=each.misfire, misfire_limit=MOST_MADE_UP, overlap="allow",
                )
            )  # fmt: skip
