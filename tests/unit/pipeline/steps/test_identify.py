"""One document has one key, however it is written; other input is refused with a clear message."""

import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.steps.identify import MAX_LENGTH, Identifier, host_key, identify
from queuemgr.base.errors import BadInput


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("2101.00001v3", "arxiv:2101.00001v3"),
        ("arXiv:0704.0001", "arxiv:0704.0001"),
        ("1412.7878", "arxiv:1412.7878"),
        ("1501.00001", "arxiv:1501.00001"),
        ("9912.12345v2", "arxiv:9912.12345v2"),
        ("2101.00001V12", "arxiv:2101.00001v12"),
        ("2101.00001#page=3", "arxiv:2101.00001"),
        ("https://arxiv.org/pdf/2101.00001v2.pdf?context=cs.CL#page=3", "arxiv:2101.00001v2"),
        ("https://arxiv.org/ps/hep-th/9901001v2", "arxiv:hep-th/9901001v2"),
        ("arXiv:math.GT/0309136v2.pdf", "arxiv:math/0309136v2"),
        ("  ARXIV: 2101.00001v2 \n", "arxiv:2101.00001v2"),
        ("arXiv:2101.00001v2 [cs.CL]", "arxiv:2101.00001v2"),
        ("\ufeff2101.00001", "arxiv:2101.00001"),
        ("2101.00001v2.pdf", "arxiv:2101.00001v2"),
        ("hep-th/9901001v2", "arxiv:hep-th/9901001v2"),
        ("HEP-TH/9901001", "arxiv:hep-th/9901001"),
        ("math.GT/0309136", "arxiv:math/0309136"),
        ("math.GT/0309136v2", "arxiv:math/0309136v2"),
        ("cond-mat/0101001", "arxiv:cond-mat/0101001"),
        ("cond-mat.stat-mech/0101001", "arxiv:cond-mat/0101001"),
        ("astro-ph/0411386v2", "arxiv:astro-ph/0411386v2"),
        ("https://arxiv.org/abs/2101.00001", "arxiv:2101.00001"),
        ("HTTP://www.ArXiv.org/pdf/2101.00001v1.pdf", "arxiv:2101.00001v1"),
        ("https://export.arxiv.org/pdf/hep-th/9901001v1.PDF#page=3", "arxiv:hep-th/9901001v1"),
        ("https://arxiv.org/html/2101.00001v4#S2.SS1", "arxiv:2101.00001v4"),
        ("https://arxiv.org/abs/2101.00001?context=cs", "arxiv:2101.00001"),
        ("arxiv.org/abs/2101.00001v2/", "arxiv:2101.00001v2"),
        ("10.48550/ARXIV.2101.00001", "arxiv:2101.00001"),
        ("https://doi.org/10.48550/arXiv.hep-th/9901001", "arxiv:hep-th/9901001"),
    ],
)
def test_every_spelling_of_an_arxiv_id_gives_its_one_key(text: str, key: str) -> None:
    assert identify(text).key == key


def test_an_arxiv_id_and_its_version_are_separated() -> None:
    assert identify("arXiv:2101.00001v2") == Identifier("arxiv", "arxiv:2101.00001v2", "2101.00001", 2)
    assert identify("2101.00001").version is None
    assert identify("arXiv:2101.00001v2").text == "2101.00001v2"


@pytest.mark.parametrize(
    "text",
    [
        "1313.00001",
        "2150.00001",
        "hep-th/9900001",
        "2100.00001",
        "2199.00001",
        "0703.0001",
        "1412.78781",
        "1501.0001",
        "2101.00000",
        "2101.0001v0",
        "2101.00001v0",
        "2101.00001v01",
        "hep-th/9913001",
        "hep-th/9106001",
        "hep-th/0704001",
        "hep-th/9901000",
        "arXiv:nonsense",
        "arXiv:",
        "https://arxiv.org/abs/1313.00001",
        "https://arxiv.org/pdf/latest",
        "10.48550/arXiv.1313.00001",
    ],
)
def test_an_arxiv_id_that_cannot_exist_is_refused(text: str) -> None:
    with pytest.raises(BadInput) as refusal:
        identify(text)
    assert repr(text) in str(refusal.value)


SICI = "10.1002/(sici)1097-4571(199806)49:8<693::aid-asi4>3.0.co;2-o"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("10.1/X", "doi:10.1/x"),
        ("doi:10.1000/182", "doi:10.1000/182"),
        ("DOI: 10.1000/ABC", "doi:10.1000/abc"),
        ("10.1000/182).", "doi:10.1000/182"),
        ("10.1000/a(b)", "doi:10.1000/a(b)"),
        ("https://doi.org/10.1000/182", "doi:10.1000/182"),
        ("http://dx.doi.org/10.1000/182", "doi:10.1000/182"),
        ("doi.org/10.1000/182", "doi:10.1000/182"),
        ("https://doi.org/10.1000%2F182?utm_source=x", "doi:10.1000/182"),
        (SICI.upper(), f"doi:{SICI}"),
        ("10.1000/x.pdf", "doi:10.1000/x.pdf"),
    ],
)
def test_every_spelling_of_a_doi_gives_its_one_key(text: str, key: str) -> None:
    assert identify(text).key == key


@pytest.mark.parametrize("text", ["doi:", "doi:182", "https://doi.org/", "https://doi.org/about"])
def test_a_doi_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"10\.1000/182"):
        identify(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("HTTPS://Example.ORG:443/a/../b.pdf#page=2", "https://example.org/b.pdf"),
        ("http://example.org", "http://example.org/"),
        ("http://example.org/%7ejo/%2fx", "http://example.org/~jo/%2Fx"),
        ("http://example.org/%2e%2e/x", "http://example.org/x"),
        ("https://example.org/x?b=2&a=1", "https://example.org/x?b=2&a=1"),
        ("https://bücher.example/é", "https://xn--bcher-kva.example/%C3%A9"),
        ("http://[::1]:8080/x", "http://[::1]:8080/x"),
        ("https://info.arxiv.org/help/x.pdf", "https://info.arxiv.org/help/x.pdf"),
    ],
)
def test_a_url_is_normalised(text: str, value: str) -> None:
    assert identify(text) == Identifier("url", f"url:{value}", value)


def test_urls_that_differ_in_the_case_of_their_path_are_two_documents() -> None:
    assert identify("https://example.org/A.pdf").key != identify("https://example.org/a.pdf").key


@pytest.mark.parametrize(
    "text",
    [
        "ftp://example.org/x.pdf",
        "s3://bucket/x.pdf",
        "http://",
        "http:///x.pdf",
        "https:/example.org/x.pdf",
        "http://example.org:99999/",
        "http://example.org:port/",
        "http://exa mple.org/",
        "http://good.example\\@evil.example/x",
        "http://[::g]/",
    ],
)
def test_what_no_client_could_fetch_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        identify(text)


@pytest.mark.parametrize("port", ["", ":1", ":nonsense"])
def test_a_password_in_a_url_is_refused_and_not_repeated(port: str) -> None:
    """User@host tricks."""
    with pytest.raises(BadInput) as refusal:
        identify(f"https://example.org:s3cret@evil.example{port}/x.pdf")
    assert "s3cret" not in str(refusal.value)


def test_paths_become_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert identify("papers/a.PDF").value == f"{os.getcwd()}/papers/a.PDF"
    assert identify("./2101.00001").value == f"{os.getcwd()}/2101.00001"
    assert identify("~/a.pdf").value == "/home/somebody/a.pdf"
    assert identify("/data/../etc/x").key == "file:/etc/x"
    assert identify("http-notes.pdf").kind == "file"


@pytest.mark.parametrize(
    "text", ["file:///data/a%20b.pdf", "file:/data/a%20b.pdf", "FILE://localhost/data/a%20b.pdf"]
)
def test_file_urls_are_paths(text: str) -> None:
    assert identify(text) == Identifier("file", "file:/data/a b.pdf", "/data/a b.pdf")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "%2e%2e%2f",
        "..\\x",
        "CON",
        "😀",
        "x" * (MAX_LENGTH + 1),
        "a\x00.pdf",
        "/etc/pass\nwd",
        "file:///a%00b.pdf",
        "file://elsewhere/a.pdf",
        "file:a.pdf",
        "~no-such-user-here/a.pdf",
        "just words",
    ],
)
def test_what_names_no_document_is_refused(text: str) -> None:
    """Invalid ids are refused as input."""
    with pytest.raises(BadInput, match="cannot be used"):
        identify(text)


def test_a_refusal_quotes_the_input_shortened() -> None:
    with pytest.raises(BadInput) as refusal:
        identify("x" * 5000)
    assert len(str(refusal.value)) < 400


@given(st.text(max_size=60))
def test_any_text_is_either_identified_or_refused(text: str) -> None:
    try:
        found = identify(text)
    except BadInput:
        return
    assert found.key == f"{found.kind}:{found.value}" + (f"v{found.version}" if found.version else "")


@given(st.sampled_from(["2101.00001v2", "hep-th/9901001", "10.1000/a.b", "https://example.org/a%20b"]))
def test_a_value_read_again_gives_the_same_key(text: str) -> None:
    once = identify(text)
    again = identify(once.key.removeprefix("url:"))
    assert again == once


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://Example.org/x", "host:example.org:443"),
        ("http://example.org/x", "host:example.org:80"),
        ("http://example.org:8080", "host:example.org:8080"),
        ("https://example.org.:443/", "host:example.org:443"),
        ("https://BÜCHER.example/", "host:xn--bcher-kva.example:443"),
        ("http://[0:0:0:0:0:0:0:1]:81/", "host:[::1]:81"),
    ],
)
def test_a_host_has_one_limit_key(url: str, key: str) -> None:
    assert host_key(url) == key


@pytest.mark.parametrize("url", ["", "example.org", "file:///x", "http://", "http://./"])
def test_what_has_no_host_has_no_limit_key(url: str) -> None:
    with pytest.raises(BadInput):
        host_key(url)


PARTS = st.sampled_from(
    ["10.1000/", "a", "%20", "%2541", "%zz", "%41", " ", "\u00a0", "\u200b", "\ufeff", ")", "(", "]", ">",
     ".", ";", "/", "..", "//", "?", "#", "[x]", "\u00e9", "\u212a", "\u0130", "e\u0301",
     ".pdf", "doi:", "arXiv:",
     "2101.00001", "v2", "~", ":", "@", "\\", "%E2%80%8B", "%00", "\u0661", "\U0001f600"]
)  # fmt: skip
SCHEMES = st.sampled_from(
    ["", "https://example.org/", "http://EXAMPLE.org", "https://doi.org/", "https://arxiv.org/abs/", "file:///",
     "/tmp/", "./", "~/", "10.1000/", "doi:", "arXiv:"]
)  # fmt: skip


@given(SCHEMES, st.lists(PARTS, max_size=8).map("".join), st.sampled_from([0, 0, 0, 1000, 4000]))
@example("https://example.org/", " ", 4000)
@example("https://example.org/", "\U0001f600", 1000)
@example("file:///", "a%20", 0)
@example("10.1000/a", "\u200b \u200b", 0)
def test_whatever_is_identified_is_identified_as_the_same_again(scheme: str, rest: str, times: int) -> None:
    """What is stored is read again by the steps, and must be as long as one may be."""
    try:
        once = identify(scheme + rest * max(1, times // max(1, len(rest))))
    except BadInput:
        return
    assert identify(once.text) == once
    assert len(once.text) <= MAX_LENGTH
