"""Analysis by a model (a local server plays it) and by picking sentences, told apart."""

# ruff: noqa: RUF001 - the Chinese paper is punctuated in Chinese

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from pipeline.steps.analyse import Analysed, AnalyseOptions, Analysis, analyse
from pipeline.steps.llm import Endpoint
from queuemgr.abort import NEVER, AbortSignal
from queuemgr.errors import Aborted, StepFailed

SECRET = "Zanzibar"  # stands in the paper, and must stand in no log and no error

PAPER = f"""[PAGE 1]
Sluices in Practice
Ann Abel, University of Things, ann@things.test
Abstract
Irrigation fails when too many gates open at the same time. We propose a sluice that counts what
flows and closes before the canal runs dry. On twelve canals near {SECRET} it saved a third of
the water without any harvest being lost.
Keywords: irrigation, sluice gates; flow control
1 Introduction
Water is scarce in many regions where farming depends on canals and gates. Farmers open their
gates when they see water, which is exactly when their neighbours open theirs as well. A canal
that feeds forty farms can run dry within an hour when nobody coordinates the gates.
Figure 1. A canal with forty gates, seen from above by a drone in the summer of last year.
[PAGE 2]
2 Method
Our sluice measures the flow of water through each gate and keeps the sum of all open gates below
the supply of the canal. This paper introduces a rule that reserves part of the flow for urgent
need, such as seedlings in a drought. The rule needs no computer at the gates and no network.
3 Results
The sluice saved a third of the water on every canal we measured over two growing seasons.
No harvest was lost, and the reserve was used on nine days out of two hundred and forty days.
Farmers who distrusted the counting at first asked to keep the sluice after the trial had ended.
The largest canal profited most because its gates had been opened at the same hours every day.
References
[1] B. Baker. Gates. Journal of Canals, 2001.
[2] C. Cole. Water. Journal of Canals, 2002.
"""

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

GOOD = {
    "title": "Sluices in Practice",
    "summary": "A sluice that counts saves water.",
    "keywords": ["irrigation"],
    "contributions": ["A counting sluice."],
}


class Model(HTTPServer):
    """Plays a model: gives the answers it was handed, one a request, and keeps the requests."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, Any]]] = []
        self.requests: list[dict[str, Any]] = []
        super().__init__(("127.0.0.1", 0), Chat)

    def say(self, content: object, finish_reason: str = "stop") -> None:
        text = content if isinstance(content, str) else json.dumps(content)
        choice = {"finish_reason": finish_reason, "message": {"content": text}}
        self.answers.append((200, {"choices": [choice]}))


class Chat(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        model = self.server
        assert isinstance(model, Model)
        model.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        status, answer = model.answers.pop(0)
        body = json.dumps(answer).encode()
        self.send_response_only(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def model() -> Iterator[Model]:
    made = Model()
    thread = threading.Thread(target=made.serve_forever, args=[0.02])
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def by(model: Model, **changes: Any) -> AnalyseOptions:
    address = f"http://127.0.0.1:{model.server_port}/v1"
    return AnalyseOptions(endpoint=Endpoint(address, "m-1", "sk-key", timeout=5), **changes)


def run(options: AnalyseOptions, text: str = PAPER) -> Analysed:
    return analyse(text, "", options, NEVER)


def failure(options: AnalyseOptions) -> StepFailed:
    with pytest.raises(StepFailed) as caught:
        run(options)
    assert SECRET not in caught.value.message
    return caught.value


def sent(model: Model, number: int) -> str:
    return json.dumps(model.requests[number - 1]["messages"])


# ---- by a model


def test_one_good_answer_costs_one_request(model: Model) -> None:
    model.say(GOOD)
    done = run(by(model))
    assert done == Analysed(Analysis.model_validate(GOOD), "model:m-1", 1)
    assert "[1] B. Baker" not in sent(model, 1)
    assert SECRET in sent(model, 1)


@pytest.mark.parametrize(
    "wrapped",
    ["```json\n{}\n```", "Here it is:\n{}", "<think>{{maybe}}</think>\n{}"],
)
def test_an_answer_is_found_in_its_wrapping(model: Model, wrapped: str) -> None:
    model.say(wrapped.replace("{{maybe}}", "{maybe}").replace("{}", json.dumps(GOOD)))
    assert run(by(model)).requests == 1


@pytest.mark.parametrize(
    "bad",
    ["I cannot say.", {**GOOD, "summary": ""}, {"title": "t"}, {**GOOD, "keywords": "one"}, "[]"],
)
def test_an_answer_off_the_schema_is_sent_back_once(model: Model, bad: object) -> None:
    model.say(bad)
    model.say(GOOD)
    assert run(by(model)).requests == 2
    assert "That does not fit" in sent(model, 2)


def test_a_second_bad_answer_is_the_last(model: Model) -> None:
    model.say({**GOOD, "summary": 7, "note": SECRET})
    model.say({**GOOD, "summary": 7, "note": SECRET})
    error = failure(by(model))
    assert (error.kind, "summary" in error.message) == ("bad_answer", True)
    assert len(model.requests) == 2


def test_a_cut_off_answer_is_asked_for_again_with_more_room(model: Model) -> None:
    """P7-07: the next try changes something."""
    model.say('{"title": "Slui', "length")
    model.say(GOOD)
    assert run(by(model, max_tokens=100)).requests == 2
    assert [request["max_tokens"] for request in model.requests] == [100, 200]


def test_an_answer_cut_off_twice_is_final(model: Model) -> None:
    """P7-07: not retried at full cost for ever; the reason says truncated."""
    model.say("", "length")
    model.say("", "length")
    error = failure(by(model, max_tokens=100))
    assert error.kind == "bad_request"
    assert "cut off at 100 and at 200 tokens" in error.message


def test_a_prompt_too_long_is_halved_once(model: Model) -> None:
    """P7-12: each later request is smaller, and there is one of them."""
    refusal = {"error": {"code": "context_length_exceeded", "message": "4096 allowed, 5000 sent"}}
    model.answers += [(400, refusal), (400, refusal)]
    error = failure(by(model))
    assert (error.kind, "4096" in error.message) == ("bad_request", True)
    assert len(sent(model, 2)) < 0.8 * len(sent(model, 1))


def test_only_so_much_of_a_long_paper_is_sent(model: Model) -> None:
    model.say(GOOD)
    run(by(model, max_chars=500))
    assert len(model.requests[0]["messages"][1]["content"]) < 600


def test_each_request_is_announced_before_it_goes_out_and_may_be_refused(model: Model) -> None:
    """P7-11: no booking, no call."""
    announced: list[int] = []

    def book(number: int) -> None:
        if number == 2:
            raise StepFailed("quota", "The budget is spent.")
        announced.append(number)

    model.say("nonsense")
    assert failure(by(model, before_request=book)).kind == "quota"
    assert (announced, len(model.requests)) == ([1], 1)


def test_what_no_database_takes_is_cleaned_out_of_an_answer(model: Model) -> None:
    """P7-02: NUL and half surrogates arrive as JSON escapes."""
    model.say({**GOOD, "title": "Slu\x00ices \ud800 in Practice", "keywords": ["a\x00"]})
    found = run(by(model)).analysis
    assert (found.title, found.keywords) == ("Sluices \ufffd in Practice", ("a",))


def test_nothing_of_the_paper_is_logged(model: Model, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    model.say("nonsense")
    model.say(GOOD)
    run(by(model))
    run(AnalyseOptions())
    assert SECRET not in caplog.text and "sk-key" not in caplog.text


# ---- without one


def test_without_a_model_the_papers_own_sentences_are_picked() -> None:
    done = run(AnalyseOptions(sentences=3))
    found = done.analysis
    assert (done.method, done.requests) == ("extractive", 0)
    assert found.title == "Sluices in Practice"
    assert found.summary.startswith("Irrigation fails when too many gates open")
    assert found.keywords == ("irrigation", "sluice gates", "flow control")
    assert any("We propose a sluice" in claim for claim in found.contributions)


def test_picked_sentences_are_printed_in_the_paper_word_for_word() -> None:
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
    assert any("提出" in claim for claim in found.contributions)


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


def test_an_abort_is_heard_before_the_work() -> None:
    signal = AbortSignal()
    signal.abort("stop")
    with pytest.raises(Aborted):
        analyse(PAPER, "", AnalyseOptions(), signal)
