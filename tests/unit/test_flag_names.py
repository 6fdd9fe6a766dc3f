"""What is the same in several commands has the same flag in all of them."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator

from django.core.management import load_command_class

COMMANDS = ("queue", "worker", "doctor", "serve")

ONE_FLAG_FOR_EACH_VALUE = {"phases"}
"""Options that share a list, to which each adds its own value (`--expensive-only`)."""


def _flags(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _flags(below)
        elif action.option_strings:
            yield action


def _several(found: dict[str, list[set[str]]]) -> dict[str, list[set[str]]]:
    return {meaning: names for meaning, names in found.items() if not set.intersection(*names)}


def test_one_thing_has_one_flag_in_all_commands() -> None:
    by_destination: dict[str, list[set[str]]] = defaultdict(list)
    by_help: dict[str, list[set[str]]] = defaultdict(list)
    for command in COMMANDS:
        parser = load_command_class("queuemgr", command).create_parser("manage.py", command)
        for flag in _flags(parser):
            by_destination[flag.dest].append(set(flag.option_strings))
            if flag.help and flag.help != argparse.SUPPRESS:
                by_help[flag.help].append(set(flag.option_strings))
    for destination in ONE_FLAG_FOR_EACH_VALUE:
        del by_destination[destination]
    assert len(by_destination) > 50
    assert _several(by_destination) == {}
    assert _several(by_help) == {}


def test_two_flags_for_one_thing_are_noticed() -> None:
    assert _several(
        {"kind": [{"--kind"}, {"--error-kind"}], "json": [{"--json"}, {"--json", "--jsonl"}]}
    ) == {"kind": [{"--kind"}, {"--error-kind"}]}
