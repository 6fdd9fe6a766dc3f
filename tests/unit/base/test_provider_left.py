"""What providers say is left: no more starts than they would serve, whatever order their answers come in."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from queuemgr.base.provider_left import (
    COUNTED_WITHIN,
    MOST,
    NOTHING_KNOWN,
    Answer,
    Left,
    ProviderLeft,
    Use,
    as_text,
    from_text,
)

RESET = 1e9


@dataclass
class Work:
    """A piece of work: when it started, until when the provider has counted it, and what that left."""

    started: float
    amount: int
    counts_at: float
    remaining: int | None = None
    answered: bool = False


@dataclass
class Fleet:
    """A fleet whose workers tell one another what a provider with a fixed window says, in any order."""

    limit: int
    now: float = 1000.0
    known: ProviderLeft = NOTHING_KNOWN
    running: list[Work] = field(default_factory=list)
    counted: int = 0

    def pass_time(self, seconds: float) -> None:
        """The provider counts requests as they become due, in its own order."""
        self.now += seconds
        due = [work for work in self.running if work.remaining is None and work.counts_at <= self.now]
        for work in sorted(due, key=lambda each: each.counts_at):
            self.counted += work.amount
            assert self.counted <= self.limit, "a request would be refused"
            work.remaining = self.limit - self.counted

    def start(self, amount: int, delay: float) -> None:
        unanswered = [Use(work.started, work.amount) for work in self.running if not work.answered]
        left = self.known.left(unanswered, self.now)
        if left is not None and amount <= left.amount:
            self.running.append(Work(self.now, amount, self.now + delay))

    def answer(self, nth: int) -> None:
        if waiting := [w for w in self.running if w.remaining is not None and not w.answered]:
            work = waiting[nth % len(waiting)]
            work.answered = True
            assert work.remaining is not None
            self.known = self.known.answered(Answer(work.started, work.remaining, RESET), self.now)

    def end(self, nth: int) -> None:
        """Also without an answer, once it has been counted."""
        if ended := [work for work in self.running if work.remaining is not None]:
            work = ended[nth % len(ended)]
            self.running.remove(work)
            if not work.answered:
                self.known = self.known.ended_unanswered(Use(work.started, work.amount), self.now)


AMOUNTS = st.integers(1, 30)
MOVES = st.one_of(
    st.tuples(st.just("start"), AMOUNTS, st.floats(0, COUNTED_WITHIN - 0.01)),
    st.tuples(st.just("pass_time"), st.floats(0.01, 3)),
    st.tuples(st.just("answer"), st.integers(0, 9)),
    st.tuples(st.just("end"), st.integers(0, 9)),
)


@given(st.integers(30, 200), st.lists(MOVES, max_size=80))
def test_nothing_starts_that_the_provider_would_refuse(limit: int, moves: list[tuple]) -> None:  # type: ignore[type-arg]  # of several shapes
    fleet = Fleet(limit)
    fleet.running.append(Work(fleet.now, 1, fleet.now))
    fleet.pass_time(0.01)
    fleet.answer(0)
    for name, *arguments in moves:
        getattr(fleet, name)(*arguments)
    fleet.pass_time(COUNTED_WITHIN)


@given(st.lists(AMOUNTS, max_size=30), st.randoms())
def test_once_all_have_answered_all_that_is_left_may_be_used(amounts: list[int], random) -> None:  # type: ignore[no-untyped-def]  # hypothesis's Random
    fleet = Fleet(1000, known=NOTHING_KNOWN.answered(Answer(1000.0, 1000, RESET), 1000.0))
    for amount in amounts:
        fleet.pass_time(0.1)
        fleet.start(amount, 0.05)
    fleet.pass_time(1)
    for _ in amounts:
        fleet.answer(random.randrange(30))
    assert fleet.known.left([], fleet.now) == Left(1000 - sum(amounts), RESET)


def test_a_late_answer_to_an_earlier_request_says_nothing_new() -> None:
    known = NOTHING_KNOWN.answered(Answer(100, 50, RESET), 101)
    assert known.answered(Answer(90, 10, RESET), 102) == known
    assert known.answered(Answer(99, 10, RESET), 102).left([], 102) == Left(10, RESET)


def test_a_later_answer_may_say_more() -> None:
    known = NOTHING_KNOWN.answered(Answer(100, 0, RESET), 101).answered(Answer(160, 900, RESET), 161)
    assert known.left([], 161) == Left(900, RESET)


def test_it_is_over_at_the_reset() -> None:
    known = NOTHING_KNOWN.answered(Answer(100, 0, 160), 101)
    assert known.left([], 159.9) == Left(0, 160)
    assert known.left([], 160) is None
    assert known.is_over(160)


def test_a_refusal_closes_the_meter_until_its_end_whatever_answers_say() -> None:
    known = NOTHING_KNOWN.closed_until(130, "429").closed_until(120, "429, sooner")
    assert known.answered(Answer(101, 900, 160), 102).left([], 129) == Left(0, 130, "429")
    assert known.answered(Answer(101, 900, 160), 102).left([], 130) == Left(900, 160)


@given(
    st.lists(st.builds(Answer, st.floats(0, 4), AMOUNTS, st.just(RESET)), max_size=60),
    st.lists(st.builds(Use, st.floats(0, 4), AMOUNTS), max_size=60),
)
def test_what_is_kept_is_bounded_and_never_says_more_for_it(answers: list[Answer], ended: list[Use]) -> None:
    known = NOTHING_KNOWN
    for use in ended:
        known = known.ended_unanswered(use, 10)
    for answer in answers:
        known = known.answered(answer, 10)
    assert len(known.answers) <= MOST
    assert len(known.ended) <= MOST
    assert from_text(as_text({"tokens": known})) == ({"tokens": known} if answers or ended else {})
    left = known.left([], 10)
    bounds = [
        a.remaining - sum(u.amount for u in ended if u.started > a.sent - COUNTED_WITHIN) for a in answers
    ]
    assert left is None if not answers else left is not None and left.amount <= min(bounds)
