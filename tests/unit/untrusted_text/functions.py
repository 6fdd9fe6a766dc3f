"""The functions that take text from outside, found in the source, and how each is called with one."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]

TEXT = re.compile(r"\b(?:str|bytes|httpx\.Response|Element|BinaryIO)\b")
"""In the annotation of a parameter: text, or what holds some."""

DIRECTLY = re.compile(r"^(?:str|bytes|object|str \| None|httpx\.URL \| str|Any)$")
LINES = re.compile(r"^(?:Sequence|Iterable|Iterator|list)\[(str|bytes)\]$")
PAGES = re.compile(r"^(?:Sequence|list)\[(?:Sequence|list)\[str\]\]$")


@dataclass(frozen=True)
class Function:
    """A function of a module, by its name in that module, with its parameters and their annotations."""

    module: str
    name: str
    parameters: tuple[tuple[str, str, bool], ...]

    @property
    def id(self) -> str:
        return f"{self.module}:{self.name}"

    def load(self) -> Callable[..., Any]:
        found: Any = importlib.import_module(self.module)
        for part in self.name.split("."):
            found = getattr(found, part)
        return found  # type: ignore[no-any-return]


def functions_in(path: Path) -> Iterator[Function]:
    """Functions and methods of a file that take text, in whatever container."""
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for name, node in defined(ast.parse(path.read_text()).body):
        given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        required = len(node.args.posonlyargs) + len(node.args.args) - len(node.args.defaults)
        parameters = tuple(
            (each.arg, ast.unparse(each.annotation) if each.annotation else "", place < required)
            for place, each in enumerate(given)
            if each.arg not in ("self", "cls")
        )
        if any(TEXT.search(annotation) for _, annotation, _ in parameters):
            yield Function(module, name, parameters)


def defined(body: Iterable[ast.stmt], within: str = "") -> Iterator[tuple[str, Any]]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield within + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from defined(node.body, f"{within}{node.name}.")


def ways_to_call(function: Function) -> Iterator[Callable[[str], Any]]:
    """For each parameter that takes text, a call with a text there and something short elsewhere."""
    called = function.load()
    if "." in function.name:
        raise LookupError(f"{function.id} is a method")
    ways = 0
    for name, annotation, _ in function.parameters:
        ways += converter(annotation) is not None
        if (as_argument := converter(annotation)) is not None:
            others = {
                other: plain_value(said)
                for other, said, required in function.parameters
                if other != name and required
            }
            yield lambda text, name=name, others=others, as_argument=as_argument: called(
                **others, **{name: as_argument(text)}
            )
    if not ways:
        raise LookupError(f"{function.id} takes text inside of something else")


def converter(annotation: str) -> Callable[[str], Any] | None:
    """How a text becomes a value of this type; None for a type that is no text."""
    if annotation == "bytes":
        return in_bytes
    if DIRECTLY.match(annotation):
        return lambda text: text
    if found := LINES.match(annotation):
        return (
            (lambda text: in_bytes(text).split(b"\n"))
            if found[1] == "bytes"
            else (lambda text: [line for line in text.split("\n") if line.strip()] or ["a"])
        )
    if PAGES.match(annotation):
        return lambda text: [
            [line for line in page.split("\n") if line.strip()] or ["a"] for page in text.split("[PAGE")
        ]
    return None


def in_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


PLAIN: Mapping[str, Callable[[], Any]] = {"int": lambda: 1, "bool": lambda: True, "float": lambda: 1.0}


def plain_value(annotation: str) -> Any:
    if annotation in PLAIN:
        return PLAIN[annotation]()
    convert = converter(annotation)
    if convert is None:
        raise LookupError(annotation)
    return convert("abc")
