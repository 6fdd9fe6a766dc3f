"""For secrets: a value once given to `register_secret` is masked in logs and errors.

`clean(text)` masks secrets and shortens a text, to be stored in a row. `read_secret` and `secret_in` read a
secret from a file, which the second makes once.
"""

from queuemgr.base.private_files import read_secret, secret_in
from queuemgr.base.redaction import clean, register_secret

__all__ = ["clean", "read_secret", "register_secret", "secret_in"]
