"""Has a GROBID server read the references of a paper, and reads its answer."""

NAME = "grobid"
"""In the name of its limit, `resolver:grobid`. Every process knows it; few ask the server."""
