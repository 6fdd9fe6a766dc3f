"""The entries of a PDF's own metadata that are read, and how much of them."""

INFO = ("title", "author", "subject", "keywords", "doi")

MAX_VALUE = 4_000
"""Characters of an entry."""

MAX_XMP = 200_000
"""Bytes of XMP."""
