"""A process that has imported what readers need, and forks one of them for each document.

Run as `python -I template.py FD`, the descriptor of a socket to the worker. It reads no document and no
text: these come through the pipes of the children, each of which confines itself (`child.py`) and ends with
its document. So no document can reach another, and none waits for the imports. It ends with its worker, and
after a minute without work.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.steps.pdf.child import Lines

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))

READERS: Mapping[str, tuple[str, ...]] = {
    "pdfium_child": ("encodings.utf_16_le",),
    "pdfium_xmp_child": ("encodings.utf_16_le", "pypdf.filters", "pypdf._codecs._codecs"),
    "pypdf_child": ("pypdf.filters", "pypdf._codecs._codecs"),
    "text_child": (),
}
"""By the name of the script, what a reader imports when it needs it. A reader is imported when the first
document asks for it: most are read by PDFium alone, and pypdf takes a tenth of a second. What a text needs is
imported by reading one of our own. The tables that count tokens, of 40 MB, are not: with a model each text
loads them for a tenth of a second."""

NEEDED = (
    "pipeline.steps.pdf.child", "pipeline.steps.pdf.how_it_ended", "pipeline.steps.confinement.confine",
)  # fmt: skip

OWN_TEXT = """A Text of Our Own
Ada Weir. 2020. doi:10.1000/1
It is read once, so that what is made for the first text is there for the others.
References
[1] A. Weir. A title. Journal of Gates, 1(2), 3-4, 2019.
"""

IDLE_SECONDS = 60.0

MOST_BYTES = 4096
MOST_DESCRIPTORS = 1 << 16


def main(descriptor: int) -> None:
    sys.path.insert(0, ROOT)
    for name in NEEDED:
        importlib.import_module(name)
    readers: dict[str, Lines | None] = {}
    control = socket.socket(fileno=descriptor)
    control.settimeout(IDLE_SECONDS)
    children: set[int] = set()
    while True:
        try:
            message, pipes, _, _ = socket.recv_fds(control, MOST_BYTES, 2)
        except TimeoutError:
            if children:
                continue
            return
        if not message:
            return
        asked = json.loads(message)
        if "start" in asked:
            script = asked["start"]
            if script not in readers:
                readers[script] = imported(script)
            answer = started(script, pipes, readers[script])
        else:
            answer = ended(asked["end"])
        children ^= {answer["pid"]}
        control.send(json.dumps(answer).encode())


def imported(script: str) -> Lines | None:
    """What reads documents in this script, with what it needs; None for a script that is not ours."""
    name = os.path.basename(script).removesuffix(".py")
    if name not in READERS:
        return None
    for needed in READERS[name]:
        importlib.import_module(needed)
    module = importlib.import_module(f"pipeline.steps.pdf.{name}")
    if os.path.abspath(str(module.__file__)) != script:
        return None
    if name == "text_child":
        module.paper(OWN_TEXT, None, {})
    gc.freeze()  # so that the children share what is imported
    lines: Lines = module.lines
    return lines


def started(script: str, pipes: list[int], lines: Lines | None) -> dict[str, int]:
    """Fork the reader of one document, which leads its own process group before anybody knows its number."""
    pid = os.fork()
    if pid == 0:
        become_child(script, pipes, lines)
    with suppress(OSError):  # it has done so itself
        os.setpgid(pid, pid)
    for end in pipes:
        os.close(end)
    return {"pid": pid}


def become_child(script: str, pipes: list[int], lines: Lines | None) -> None:
    """Keep nothing of the template's but its modules; never returns."""
    status = 1
    try:
        sys.dont_write_bytecode = True
        os.setpgid(0, 0)
        os.dup2(pipes[0], 0)
        os.dup2(pipes[1], 1)
        os.closerange(3, MOST_DESCRIPTORS)
        from pipeline.steps.pdf import child

        child.main(script, lines)
        status = 0
    finally:
        os._exit(status)


def ended(pid: int) -> dict[str, int]:
    """Reap a child that has been killed, whose number is its own until then."""
    from pipeline.steps.pdf.how_it_ended import waited_for

    return {"pid": pid} | waited_for(pid)._asdict()


if __name__ == "__main__":
    main(int(sys.argv[1]))
