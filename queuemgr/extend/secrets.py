"""For what may hold secrets: register a value once, and no log line or row shows it again."""

from queuemgr.base.redaction import clean, register_secret

__all__ = ["clean", "register_secret"]
