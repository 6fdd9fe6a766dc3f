"""Sending one mail through Django's settings, in bounded time.

A server that answers a byte now and then passes every timeout of a socket, and a project's own backend may
have none: so a mail is sent in a thread, of which a process has one, and who waits for it stops waiting.
"""

from __future__ import annotations

import threading

from django.core.mail import EmailMessage, get_connection

from queuemgr.base import process_state
from queuemgr.base.db_connection import close_connections
from queuemgr.base.raised import type_name

_one_at_a_time = threading.Lock()


def _reset() -> None:
    global _one_at_a_time
    _one_at_a_time = threading.Lock()


process_state.register(_reset, in_forked_child=True)


def problem_of_sending(mail: EmailMessage, seconds: float) -> str:
    """Send it; returns why it was not taken in so many seconds, or nothing. It may still be taken later."""
    lock, problems = _one_at_a_time, list[str]()
    if not lock.acquire(blocking=False):
        return "the mail server has not taken the message before"
    thread = threading.Thread(
        target=_send, args=(mail, seconds, problems, lock), daemon=True, name="mail of an alert"
    )
    try:
        thread.start()
    except RuntimeError as error:  # the system gives no more threads now
        lock.release()
        return f"the mail was not sent: {error}"
    thread.join(seconds)
    if thread.is_alive():
        return f"the mail server took no message in {seconds:g} s"
    return "".join(problems)


def _send(mail: EmailMessage, seconds: float, problems: list[str], lock: threading.Lock) -> None:
    try:
        mail.connection = get_connection(timeout=seconds)
        mail.send()
    except BaseException as error:  # of whatever backend the project has: it must not keep others waiting
        said = getattr(error, "smtp_code", None) or getattr(error, "strerror", None)
        problems.append(f"the mail server took no message: {type_name(error)}{f' {said}' if said else ''}")
    finally:
        lock.release()
        close_connections()  # a backend may have used the database
