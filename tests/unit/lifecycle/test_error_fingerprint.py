"""Fingerprints: one for one cause, whatever the details; another for another cause."""

from __future__ import annotations

import subprocess
import sys
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuemgr.base.redaction import MESSAGE_LIMIT, clean
from queuemgr.lifecycle.error_fingerprint import fingerprint, without_details

ALIKE = [
    ("no answer within 30 s", "no answer within 4.5 s"),
    ("HTTP 503 from http://a.example/x?y=1", "HTTP 503 from https://b.example:8443/z/long/path#f"),
    (f"lease {UUID(int=1 << 90)} is gone", f"lease {UUID(int=1 << 91)} is gone"),
    ("object at 0x7f21ab09 died", "object at 0xdeadbeef died"),
    ("sha1 da39a3ee5e6b4b0d differs", "sha1 00ff00ff00ff00ff00 differs"),
    ("cannot open /data/files/ab/1.pdf: gone", "cannot open C:\\papers\\x\\2.pdf: gone"),
    ("field 'title' is missing", "field 'authors of it' is missing"),
    ('expected "a", met `b`', 'expected "cc dd", met `e`'),
    ("said “one”", "said “two”"),
    ("at 2026-11-28 13:04:59.123, twice", "at 2027-01-02 03:04:05, twice"),
    ("two\n  lines", "two lines"),
    ("worker w1@host-17 stopped", "worker w22@host-3 stopped"),
]

DIFFERENT = [
    ("no answer within 30 s", "connection refused after 30 s"),
    ("field 'title' is missing", "field 'title' is too long"),
    ("the worker's lease is gone", "the worker's slot is gone"),
    ("deadbeef", "cafe"),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_messages_that_differ_in_details_have_one_fingerprint(one: str, other: str) -> None:
    assert without_details(one) == without_details(other)
    assert fingerprint("network", "fetch", one) == fingerprint("network", "fetch", other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_causes_have_different_fingerprints(one: str, other: str) -> None:
    assert fingerprint("network", "fetch", one) != fingerprint("network", "fetch", other)


def test_error_kind_and_step_are_part_of_the_fingerprint() -> None:
    found = {fingerprint(kind, step, "no") for kind in ("a", "b") for step in ("x", "y")}
    assert len(found) == 4
    assert fingerprint("ab", "c", "no") != fingerprint("a", "bc", "no")


@given(st.text(max_size=3000))
def test_any_message_has_one_of_sixteen_hex_digits(message: str) -> None:
    found = fingerprint("k", "s", clean(message))
    assert len(found) == 16
    assert set(found) <= set("0123456789abcdef")


def test_a_quotation_truncated_by_the_column_is_still_a_detail() -> None:
    long, longer = (clean(f'the server said "{c * (MESSAGE_LIMIT + 9)}" to us') for c in "xy")
    assert fingerprint("k", "s", long) == fingerprint("k", "s", longer)


def test_a_fingerprint_is_the_same_in_every_process() -> None:
    script = (
        "from queuemgr.lifecycle.error_fingerprint import fingerprint as f;"
        "print(f('network', 'fetch', 'no 1'))"
    )
    fingerprints = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }  # fmt: skip
    assert fingerprints == {fingerprint("network", "fetch", "no 2")}


@pytest.mark.parametrize("message", ['"' * 2000, "'a" * 1000, "/a" * 1000, "a" * 2000, "1." * 1000])
def test_no_message_takes_long_to_fingerprint(message: str) -> None:
    for _ in range(50):
        fingerprint("k", "s", message)
