"""The queue in a project that does not know papers: `tests/other_application`, in its own process."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
APPLICATION = ROOT / "tests" / "other_application"

PAPERS = re.compile(
    r"papers?\b|arxiv|\bdois?\b|pdf|\bocr\b|documents?\b|crossref|unpaywall|openalex|"
    r"\bprep|expensive|\bwrap|(?<!max[ _-])pending|analy[sz]",
    re.IGNORECASE,
)


class ReadText(HTMLParser):
    """Collects what a person reads on a page, titles and labels of elements included."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._unread = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._unread += tag in ("script", "style", "svg")
        if ("type", "hidden") in attrs:
            return  # nobody reads it, and a token may happen to hold "pdf"
        shown = ("title", "placeholder", "aria-label", "alt", "value")
        self.texts += [value for name, value in attrs if name in shown and value]

    def handle_endtag(self, tag: str) -> None:
        self._unread -= tag in ("script", "style", "svg")

    def handle_data(self, data: str) -> None:
        if not self._unread:
            self.texts.append(data)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All that the queue shows in that project, with `SLUICE_MAX_FOLD=1`."""
    directory = tmp_path_factory.mktemp("press")
    shutil.copytree(APPLICATION, directory, dirs_exist_ok=True)
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "look_around.py"], cwd=directory, capture_output=True, text=True,
        env={
            **inherited, "PYTHONPATH": f"{directory}:{ROOT}", "PRESS_DIR": str(directory),
            "DJANGO_SETTINGS_MODULE": "press.settings", "SLUICE_MAX_FOLD": "1",
            "SLUICE_METRICS_WITHOUT_TOKEN": "on",
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def words_of_papers(texts: dict[str, str]) -> dict[str, list[str]]:
    found = {name: PAPERS.findall(text) for name, text in texts.items()}
    return {name: found_words for name, found_words in found.items() if found_words}


def test_no_help_text_of_any_command_mentions_papers(shown: dict[str, Any]) -> None:
    assert len(shown["help"]) > 40
    assert words_of_papers(shown["help"]) == {}


def test_no_command_output_mentions_papers(shown: dict[str, Any]) -> None:
    assert words_of_papers(shown["commands"]) == {}
    assert "out_of_ink: the press has no ink" in shown["commands"]["policy out_of_ink"]


def test_no_page_of_the_admin_mentions_papers(shown: dict[str, Any]) -> None:
    assert len(shown["pages"]) > 15
    pages = {name: " ".join(ReadText(page).texts) for name, page in shown["pages"].items()}
    assert words_of_papers(pages) == {}


def test_the_api_s_schema_does_not_mention_papers(shown: dict[str, Any]) -> None:
    assert words_of_papers({"schema": json.dumps(shown["api"])}) == {}


def test_the_phases_of_the_flow_are_on_the_dashboard_and_in_the_help(shown: dict[str, Any]) -> None:
    assert {"print", "fold"} <= set(ReadText(shown["pages"]["/admin/queuemgr/execution/dashboard/"]).texts)
    for option in ("--max-print", "--max-fold", "--print-only", "--fold-only"):
        assert option in shown["help"]["queue run"]


def test_its_phases_and_keys_have_the_caps_of_the_flow_and_of_the_settings(shown: dict[str, Any]) -> None:
    assert shown["leased"] == {"print": 1, "fold": 1}, "machine:press 1/1, SLUICE_MAX_FOLD=1"


def test_items_without_a_flow_go_into_the_only_one(shown: dict[str, Any]) -> None:
    executions = ReadText(shown["pages"]["/admin/queuemgr/execution/"]).texts
    assert {"leaflet-1", "leaflet-2", "leaflet-3"} <= {text.strip() for text in executions}
