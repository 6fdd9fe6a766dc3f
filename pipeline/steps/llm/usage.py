"""The requests and tokens of a step at a model's endpoint. Pure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple


class ReportedUsage(NamedTuple):
    """Tokens of the prompt and of the completion, and those of the prompt that the endpoint had in its cache,
    as the server reports them; else 0."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0


UNSEEN_TOKENS = 10_000
"""Of a prompt, beyond those of the text sent: the chat format, the schema, an endpoint's own instructions."""

PICTURE_TOKENS = 100_000
"""Of a picture: models count 85 to 37,000 for one."""

REASONING = 2
"""Some endpoints let a model think for as long again as its answer may be."""


def most_plausible(sent: Iterable[str], max_tokens: int, pictures: int = 0) -> ReportedUsage:
    """The most that a request can use: each token of a text stands for a byte of it or more."""
    text = sum(len(each.encode("utf-8", "surrogatepass")) for each in sent)
    prompt = text + UNSEEN_TOKENS + pictures * PICTURE_TOKENS
    return ReportedUsage(prompt, REASONING * max_tokens + UNSEEN_TOKENS, prompt)


async def nothing() -> None:
    """For callers that charge nothing."""


async def nobody_told(headers: Mapping[str, str], sent: float) -> None:
    """For callers that nobody shares an endpoint with."""


@dataclass
class Usage:
    """Requests sent and tokens used so far, as the server reports them, failures included.

    What a response reports beyond what its request can have used is not counted: one false answer would spend
    the allowances of a day. `doubted` counts such responses.
    `known` counts the requests of which it is known what they used: nothing, where they were refused.
    `after_answer` is awaited when an answer has been counted, `after_headers` before that, with the headers
    of a response and when its request was sent, by `time.monotonic()`.
    """

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    images: int = 0
    known: int = 0
    doubted: int = 0
    after_answer: Callable[[], Awaitable[object]] = nothing
    after_headers: Callable[[Mapping[str, str], float], Awaitable[object]] = nobody_told

    async def add(self, used: ReportedUsage, most: ReportedUsage, *, refused: bool, images: int = 0) -> None:
        """Add what a response reports, a failed one too, but `most` at most. `refused`: its status says that
        nothing was done; `images`: pictures that were sent."""
        believed = ReportedUsage(*map(min, used, most))
        self.doubted += believed != used
        used = believed
        reported = bool(used.prompt_tokens or used.completion_tokens)
        self.prompt_tokens += used.prompt_tokens
        self.completion_tokens += used.completion_tokens
        self.cached_tokens += min(used.cached_tokens, used.prompt_tokens)
        self.images += images if reported else 0
        self.known += reported or refused
        await self.after_answer()

    def unanswered(self, *, timed_out: bool) -> None:
        """Count a request that failed without an answer: after a timeout it may have been worked on."""
        self.known += not timed_out
