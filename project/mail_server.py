"""The server that mail is sent through, as one address: `smtp+tls://user:password@mail.example.org:587`."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

PORTS = {"smtp": 25, "smtp+tls": 587, "smtp+ssl": 465}


def mail_settings(url: str) -> dict[str, Any]:
    """Django's settings for it, none for an empty one. Raises `ValueError`, which quotes nothing of it."""
    if not url:
        return {}
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in PORTS or not parts.hostname:
        raise ValueError("must be smtp://, smtp+tls:// or smtp+ssl:// and a host")
    return {
        "EMAIL_HOST": parts.hostname,
        "EMAIL_PORT": port or PORTS[parts.scheme],
        "EMAIL_HOST_USER": unquote(parts.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
        "EMAIL_USE_TLS": parts.scheme == "smtp+tls",
        "EMAIL_USE_SSL": parts.scheme == "smtp+ssl",
    }
