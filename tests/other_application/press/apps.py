from django.apps import AppConfig


class PressConfig(AppConfig):
    """Registers the press flow."""

    name = "press"

    def ready(self) -> None:
        from press.flow import PRESS
        from queuemgr import register_flow

        register_flow(PRESS)
