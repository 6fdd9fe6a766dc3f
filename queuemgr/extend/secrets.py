"""For secrets: a value once registered is masked in logs and errors.

`clean(text)` masks secrets and shortens a text, to be stored in a row.
"""

from queuemgr.base.redaction import clean, register_secret

__all__ = ["clean", "register_secret"]
