"""XML of strangers: no entities, no other encoding than UTF-8. Pure."""

from __future__ import annotations

from xml.etree import ElementTree

from queuemgr import StepFailed

_HEAD = 1024
"""Bytes within which a document type appears, if there is one."""


def root_of(body: bytes, name: str, what: str) -> ElementTree.Element:
    """The root element of a body. `name` of who sent it, and `what` it should have been.

    Raises StepFailed("bad_answer") for anything else, and for what declares a document type or an entity.
    """
    if b"<!doctype" in body[:_HEAD].lower():
        raise StepFailed("bad_answer", f"{name} sent a web page instead of {what}")
    if b"\0" in body:
        raise StepFailed("bad_answer", f"{name} sent {what} in another encoding than UTF-8")
    if b"<!entity" in body.lower():
        raise StepFailed("bad_answer", f"{name} sent {what} that defines entities")
    # Entities may expand without bound. They were refused above as UTF-8 writes them, and no other encoding
    # is read, whatever the text says: those that expat detects by itself have a NUL beside every `<`.
    utf8 = ElementTree.XMLParser(encoding="utf-8")  # noqa: S314 - no entities, bounded
    try:
        return ElementTree.fromstring(body, utf8)  # noqa: S314 - no entities, bounded
    except (ElementTree.ParseError, ValueError) as error:
        raise StepFailed("bad_answer", f"{name} sent no {what.partition(' ')[2]}: {error}") from error
