"""The press flow: each leaflet is printed, then folded."""

from __future__ import annotations

from queuemgr import Flow, NewExecution, Phase, Policy, Step

PRESS = Flow(
    name="press",
    phases=(
        Phase("print", rank=1, waiting="queued", running="printing", steps=(
            Step("print", "press.print", key=lambda context: "machine:press"),
        )),
        Phase("fold", rank=0, waiting="printed", running="folding", steps=(
            Step("fold", "press.fold"),
        ), max_running=2),
    ),
    parse_item=NewExecution,
    error_kinds={"out_of_ink": Policy(5, base=60, ceiling=600, meaning="the press has no ink")},
    limits=lambda: {"machine:*": {"max_running": 1}},
)  # fmt: skip
