"""Code of an adopter as mypy sees it. Nothing here runs: mypy checks it with the rest, and reports each
`type: ignore` that is not needed, that is, each wrong call that it would let pass."""
