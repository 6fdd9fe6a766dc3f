"""The command line of a benchmark: its help is the docstring of its module, with examples."""

from __future__ import annotations

import argparse


def parser(module: str, description: str | None, *examples: str, before: str = "") -> argparse.ArgumentParser:
    """A parser for `python -m MODULE`; each example is what may follow that, and `before` what
    may precede it in a shell."""
    command = f"python -m {module}"
    lines = [f"  {before}{command} {example}" for example in examples]
    return argparse.ArgumentParser(
        prog=command,
        description=description,
        epilog="\n".join(["examples:", *lines]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
