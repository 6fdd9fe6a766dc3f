"""Right calls of queued functions, and wrong ones."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_type

from queuemgr import BatchHandle, Call, Handle, Queued, Unique, queued


@dataclass
class Receipt:
    number: int


@queued(limits={"host:{host}": 2}, cost=1, retries=3, time_limit=30, priority="low")
def send(host: str, count: int = 1, *, when: datetime | None = None) -> Receipt:
    return Receipt(count)


@queued
def plain(number: int) -> list[int]:
    return [number]


@queued(unique=Unique(keys=["index"], debounce="30s", at_most="10m"))
def reindex(index: str) -> None: ...


@queued(unique="of {number}")
async def later(number: int) -> str:
    return str(number)


@queued
def many(first: str, /, *rest: int, **named: float) -> None: ...


def right(now: datetime) -> None:
    assert_type(send.enqueue("a.example", 2, when=now), Handle[Receipt])
    assert_type(send.enqueue("a.example").result(timeout=1), Receipt)
    assert_type(send.using(priority="high").enqueue("a"), Handle[Receipt])
    assert_type(send.later(timedelta(hours=1), "a", count=2).status, str)
    assert_type(send.handle("key").get(), Receipt)
    assert_type(plain.enqueue(1).result(), list[int])
    assert_type(later.enqueue(1).result(), str)
    assert_type(send.enqueue_many([{"host": "a"}]), list[Handle[Receipt]])
    assert_type(send.map(["a", ("b", 2)], window=5, on_complete=plain.call(1)), BatchHandle[Receipt])
    assert_type([member.result for member in plain.map([1]).results()], list[list[int] | None])
    assert_type(plain.call(1), Call)
    many.enqueue("a", 1, 2, x=1.5)
    function: Queued[[int], list[int]] = plain
    function.enqueue(1)


async def right_too(now: datetime) -> None:
    assert_type(await send.aenqueue("a", when=now), Handle[Receipt])
    assert_type(await plain.enqueue(1).aresult(), list[int])


def wrong(now: datetime) -> None:
    send.enqueue()  # type: ignore[call-arg]
    send.enqueue(1)  # type: ignore[arg-type]
    send.enqueue("a", "2")  # type: ignore[arg-type]
    send.enqueue("a", when="now")  # type: ignore[arg-type]
    send.enqueue("a", 1, now)  # type: ignore[call-arg]
    send.enqueue(hots="a")  # type: ignore[call-arg]
    send.later(timedelta(hours=1))  # type: ignore[call-arg]
    send.later("tomorrow", "a")  # type: ignore[arg-type]
    send.later(60, 1)  # type: ignore[arg-type]
    send.using(priority=1)  # type: ignore[arg-type]
    send.using(prio="high")  # type: ignore[call-arg]
    send.using(priority="high").enqueue(1)  # type: ignore[arg-type]
    plain.enqueue("1")  # type: ignore[arg-type]
    plain.call("1")  # type: ignore[arg-type]
    plain.map([1], windw=5)  # type: ignore[call-arg]
    later.enqueue("1")  # type: ignore[arg-type]
    many.enqueue(first="a")  # type: ignore[call-arg, arg-type]
    many.enqueue("a", "b")  # type: ignore[arg-type]
    many.enqueue("a", x="b")  # type: ignore[arg-type]
    text: str = plain.enqueue(1).result()  # type: ignore[assignment]
    number: int = later.enqueue(1).result()  # type: ignore[assignment]
    del text, number


async def wrong_too() -> None:
    await send.aenqueue(1)  # type: ignore[arg-type]
    receipt: int = await send.enqueue("a").aresult()  # type: ignore[assignment]
    del receipt


@queued(limits=2)  # type: ignore[call-overload, untyped-decorator]
def wrong_limits(host: str) -> None: ...


@queued(retries="3")  # type: ignore[call-overload, untyped-decorator]
def wrong_retries(host: str) -> None: ...
