"""Registers the flows under proof."""

from __future__ import annotations

from django.apps import AppConfig


class ProofConfig(AppConfig):
    name = "proof.application"
    label = "proof_application"

    def ready(self) -> None:
        from proof.application import flows
        from queuemgr import register_flow

        register_flow(flows.HOSTILE)
        register_flow(flows.PATIENT)
