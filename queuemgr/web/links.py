"""Addresses of pages of the admin, and links to them."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from django.utils.html import escape, format_html
from django.utils.http import urlencode


def address(page: str, /, *args: Any, **query: Any) -> str:
    """A page of the admin with these filters."""
    path = reverse(f"admin:{page}", args=args)
    return f"{path}?{urlencode(query)}" if query else path


def link(address: str, text: Any) -> str:
    """A text, linked if there is an address."""
    return format_html('<a href="{}">{}</a>', address, text) if address else str(escape(text))
