"""Analysis without a model: the paper's own sentences, and its title."""

# ruff: noqa: RUF001 - the Chinese paper is punctuated in Chinese

from __future__ import annotations

import pytest

from pipeline.steps.analyse.analyse import Analysed, AnalyseOptions, analyse
from pipeline.steps.analyse.extractive import first_title
from queuemgr.base.errors import Aborted, StepFailed
from queuemgr.flows.abort_signal import NEVER, AbortSignal
from tests.papers import PAPER

CHINESE = """[PAGE 1]
基于深度学习的水流控制方法
摘要：灌溉系统在多个闸门同时打开时容易失效。本文提出一种能够计量水流并自动关闭的闸门控制方法。
关键词：灌溉；闸门；水流控制
1 引言
许多地区的农业生产依赖于渠道和闸门，因此水资源的分配十分重要。当上游的农户同时打开闸门时，
下游的渠道会在一小时之内干涸。现有的水流控制方法没有考虑紧急需求，例如干旱时期的幼苗灌溉。
我们提出的方法测量每个闸门的水流，并保证所有打开的闸门的总流量低于渠道的供水量。
实验结果表明，该方法在十二条渠道上节省了三分之一的水资源，而且没有造成任何作物损失。
参考文献
[1] 张三. 闸门控制. 水利学报, 2001.
[2] 李四. 水流测量. 水利学报, 2002.
"""


def run(options: AnalyseOptions, text: str = PAPER) -> Analysed:
    return analyse(text, "", options, NEVER)


def test_without_a_model_the_papers_own_sentences_are_picked() -> None:
    done = run(AnalyseOptions(sentences=3))
    found = done.analysis
    assert (done.method, done.prompt_version) == ("extractive", "")
    assert found.title == "Sluices in Practice"
    assert found.summary.startswith("Irrigation fails when too many gates open")
    assert found.keywords == ("irrigation", "sluice gates", "flow control")
    assert any("We propose a sluice" in claim.text for claim in found.contributions)
    assert {(claim.page, claim.verdict) for claim in found.contributions} <= {
        (1, "verified"),
        (2, "verified"),
    }


def test_selected_sentences_are_printed_in_the_paper_word_for_word() -> None:
    summary = run(AnalyseOptions(sentences=3)).analysis.summary
    printed = " ".join(PAPER.split())
    picked = summary.split("\n\n")[1]
    assert len(picked) > 100
    assert all(piece.strip(" .") in printed for piece in picked.split(". "))


def test_front_matter_captions_and_references_are_not_picked() -> None:
    summary = run(AnalyseOptions(sentences=20)).analysis.summary
    for unwanted in ("ann@things", "Figure 1", "Baker", "Introduction", "[PAGE"):
        assert unwanted not in summary


def test_a_chinese_paper_is_analysed_too() -> None:
    found = run(AnalyseOptions(sentences=2), CHINESE).analysis
    assert found.title == "基于深度学习的水流控制方法"
    assert "本文提出" in found.summary and "张三" not in found.summary
    assert found.keywords == ("灌溉", "闸门", "水流控制")
    assert any("提出" in claim.text for claim in found.contributions)


def test_the_title_of_the_catalogue_is_taken_where_there_is_one() -> None:
    assert analyse(PAPER, "Given Title", AnalyseOptions(), NEVER).analysis.title == "Given Title"


@pytest.mark.parametrize(
    "text", ["42 17\n3.14", "one", "a b c " * 5000, "Same here. " * 2000, "e.g. A " * 90_000]
)
def test_a_document_without_sentences_still_gives_something(text: str) -> None:
    found = run(AnalyseOptions(), text).analysis
    assert found.title and found.summary


@pytest.mark.parametrize("text", ["", " \n", "[PAGE 1]\n\n[PAGE 2]\n"])
def test_no_text_is_an_outcome_of_its_own(text: str) -> None:
    with pytest.raises(StepFailed) as caught:
        run(AnalyseOptions(), text)
    assert caught.value.kind == "no_text"


def test_an_abort_is_noticed_before_the_work() -> None:
    signal = AbortSignal()
    signal.abort("stop")
    with pytest.raises(Aborted):
        analyse(PAPER, "", AnalyseOptions(), signal)


@pytest.mark.parametrize(
    ("lines", "title"),
    [
        (
            ["arXiv:2101.00001v3 [cs.CL] 3 Jan 2021", "A Crash Course on the Estimation of",
             "computational models with a", "Bayesian approach", "Ann Abel1 and Bo Bell2"],
            "A Crash Course on the Estimation of computational models with a Bayesian approach",
        ),
        (["Journal of Canals, Vol. 3 (2001)", "Sluices in Practice", "Ann Abel, Bo Bell"],
         "Sluices in Practice"),
        (["Gates: An Inquiry into the", "Abstract", "we count."], "Gates: An Inquiry into the"),
        (["Sluices in Practice", "ann@things.test"], "Sluices in Practice"),
    ],
)  # fmt: skip
def test_a_title_is_found_below_stamps_and_continues_where_it_was_broken(
    lines: list[str], title: str
) -> None:
    assert first_title(lines) == title
