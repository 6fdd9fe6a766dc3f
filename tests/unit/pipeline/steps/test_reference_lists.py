"""Lists of references as papers print them, generated: each entry is whole, and none is more than one."""

# ruff: noqa: RUF001 - typographic quotes and dashes are what papers print

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Sequence

import pytest

from pipeline.steps.extract.references import find_references
from tests.unit.pipeline.steps.reference_styles import AUTHOR_YEAR, NUMBERED, Printed, printed, references

PROSE = (
    "We follow earlier work (Smith, 2001) and others, see also Cole (1999), and the",
    "twelve gates of 1999, which all leak a little. In 2004 this was different.",
)
STYLES = [*AUTHOR_YEAR, *NUMBERED]
WIDTHS = (46, 64, 90)


def paper(lines: Sequence[str], heading: str = "References", after: Sequence[str] = (), page: int = 0) -> str:
    """A paper with this list; a new page after each `page` lines of it, each with a foot and its number."""
    body = ["A title", *PROSE * 3, *([heading] if heading else []), *lines, *after]
    if not page:
        return "\n".join(["[PAGE 1]", *body])
    pages = [body[i : i + page] for i in range(0, len(body), page)]
    return "\n".join(
        line
        for n, part in enumerate(pages, 1)
        for line in (f"[PAGE {n}]", *part, "Abel et al., (2019). On gates. Journal of Water, 2(11), 37.",
                     "https://doi.org/10.1000/water.00037", str(n))
    )  # fmt: skip


def plain(text: str) -> str:
    """Without what a line break changes."""
    return text.replace(" ", "").replace("-", "")


def expected(refs: Sequence[Printed], style: str) -> list[str]:
    return [plain(" ".join(lines)) for lines in entries(refs, style, 10_000)]


def entries(refs: Sequence[Printed], style: str, width: int) -> list[list[str]]:
    return [[line] for line in printed(refs, style, width)]


def found(text: str) -> list[str]:
    result = find_references(text)
    assert result.count == len(result.entries)
    return [plain(entry.text) for entry in result.entries]


@pytest.mark.parametrize("style", STYLES)
def test_every_entry_of_a_list_is_whole_however_its_lines_break(style: str) -> None:
    refs = references(17)
    for width in WIDTHS:
        assert found(paper(printed(refs, style, width))) == expected(refs, style), width


@pytest.mark.parametrize("style", STYLES)
def test_the_foot_of_pages_is_no_part_of_a_list(style: str) -> None:
    refs = references(9)
    for width, page in itertools.product(WIDTHS, (14, 23)):
        assert found(paper(printed(refs, style, width), page=page)) == expected(refs, style), (width, page)


@pytest.mark.parametrize("style", AUTHOR_YEAR)
def test_an_author_year_list_needs_no_heading(style: str) -> None:
    refs = references(9)
    for width in WIDTHS:
        assert found(paper(printed(refs, style, width), heading="")) == expected(refs, style), width


AFTER = {
    "an annex": [
        "Annex A. How the gates were measured",
        "All gates of 2004 were measured twice.",
        "They leaked.",
    ],
    "captions": ["Figure captions", "Figure 1. The gates of the village in 2003.", "Figure 2. Their seals."],
    "a caption": ["Figure 7: The gates of the village in 2003 and the water", "that is behind them."],
    "a table": ["Table 2. Gates of 1999, by village and by the year of their seals.", "Upper 12", "Lower 7"],
    "end notes": ["Notes", "1. All gates leak, see Cole (1999).", "2. None is tight."],
    "a note": ["1 The manual is kept beside the gates, where it can be read by", "everybody who opens them."],
    "a publisher": [
        "Submit your next manuscript to us and benefit from convenient online submission",
        "Open Access",
    ],
    "a licence": ["This article is distributed under the terms of a licence of 2016, which permits use."],
    "dates": ["Received 3 May 2004; accepted 7 June 2004."],
    "a biography": ["Biographies", "Ann Abel is a professor of water. She was born in 1960."],
}


@pytest.mark.parametrize("after", AFTER)
def test_what_follows_the_last_entry_is_no_part_of_it_and_nothing_of_it_is_lost(after: str) -> None:
    for style, width, count in itertools.product(STYLES, WIDTHS, (3, 8)):
        refs = references(count)
        got = found(paper(printed(refs, style, width), after=AFTER[after]))
        assert got == expected(refs, style), (style, width)


def test_a_last_entry_longer_than_all_before_is_whole() -> None:
    authors = tuple((f"Young{chr(97 + n)}", "Ann") for n in range(20))
    last = Printed(
        authors, "On the seals of gates and the water behind them", "Journal of Water", 2019, 4, "16–17"
    )
    for style, width in itertools.product(STYLES, WIDTHS):
        refs = [*(ref for ref in references(12) if ref.authors[0][0] < "Y" and len(ref.authors) < 2), last]
        assert found(paper(printed(refs, style, width), after=AFTER["a caption"])) == expected(refs, style)


def test_a_year_on_the_first_line_does_not_end_the_last_entry() -> None:
    lines = ["Abel, A. (2019).", "On gates. J Water, 4(43), 1686.", "https://doi.org/10.1000/9"]
    [entry] = find_references(paper(lines, after=AFTER["a caption"])).entries
    assert (entry.text, entry.doi) == (" ".join(lines), "10.1000/9")


@pytest.mark.parametrize(
    "entry",
    [
        "The MathWorks, Inc. (2018). MATLAB. Natick, MA.",
        "R Core Team. (2018). R: A language for statistical computing. R Foundation. https://www.R-project.org/",
        "World Health Organization. (2020). Gates of the world (Report 12). World Health Organization.",
        "pandas. (2020). Pandas-dev/pandas: pandas (latest). Zenodo. https://doi.org/10.5281/zenodo.3509134",
        "The smallest known gate. (2008). In Scientific Gates. https://example.org/gallery/the-smallest-gate",
        "Cant, S. (2002). On fluids. Transactions of the Society. Series A, 360(1795), 1211–1225.",
        "Wing, J. M. (2008). On thinking. Philosophical Transactions A, 366(1881), 3717–3725.",
        "Lessons. (n.d.). Retrieved September 12, 2021, from https://example.org/lessons/",
    ],
)
def test_an_entry_of_no_person_or_with_numbers_like_years_is_one_entry(entry: str) -> None:
    for width in WIDTHS:
        lines = [*printed(references(12), "APA", width)]
        others = len(find_references(paper(lines)).entries)
        wrapped = textwrap.wrap(entry, width, break_long_words=False)
        before = [line for ref in sorted(references(12), key=lambda ref: ref.authors)[:6]
                  for line in printed([ref], "APA", width)]  # fmt: skip
        got = found(paper([*before, *wrapped, *lines[len(before) :]]))
        assert len(got) == others + 1
        assert plain(entry) in got, width


def test_a_publisher_on_a_line_of_its_own_begins_no_entry() -> None:
    lines = [
        "Abel, A., & Hill, C. (2010). Explicit gates: Effective and efficient openings.",
        "Gate Publications.",
        "Baker, S. O., & Cole, S. (2015). Locks: A paradigm for water. Journal of Water, 5(6), 66.",
        "Dunn, D. (2016). On mills.",
        "Mill Press.",
        "Evans, E. (2017). On ponds. Pond House.",
    ]
    assert found(paper(lines)) == [plain("".join(lines[a:b])) for a, b in ((0, 2), (2, 3), (3, 5), (5, 6))]


def test_a_year_printed_in_another_way_than_most_is_found() -> None:
    lines = [
        "Abel, A., & Baker, B. 2004, ApJ, 600, 12", "Cole, C. 2010, MNRAS, 1, 2",
        "Dunn, D. 2015, in Proceedings of Water, ed. E. Frost (Mill Press), 3",
        "Hill, H. 1992. IRAS Survey of Gates (Water Press)", "Innes, I. 1999, A&A, 3, 4",
        "Kim, K., & Lee, L. 2003, ApJ, 7, 8",
    ]  # fmt: skip
    assert found(paper(lines)) == list(map(plain, lines))


DOIS = (
    "10.1101/091553", "10.1038/nn.3635", "10.1109/mcse.2006.122", "10.1523/jneurosci.5506-08.2009",
    "10.1002/eco.2042", "10.1662/0002-7685(2007)69[71:csmaet]2.0.co;2", "10.1016/0009-2614(80)80396-4",
    "10.32614/cran.package.tidymodels", "10.32614/r.manuals", "10.5281/zenodo.726", "10.1093/scan/nsaa089",
    "10.1002/(sici)1098-2736(199812)35:10<1069::aid-tea2>3.0.co;2-a", "10.1016/b978-012387582-2/50038-1",
    "10.2218/ijdc.v10i1.351",
)  # fmt: skip
BREAKS = "/.-_(:)"


@pytest.mark.parametrize("prefix", ["doi:", "https://doi.org/"])
def test_a_doi_broken_at_the_end_of_its_line_is_whole_or_none(prefix: str) -> None:
    """At each sign after which typesetters break. Over a page's end its rest may be a page number."""
    wrong = []
    for doi in DOIS:
        for at in [i for i, sign in enumerate(doi, 1) if sign in BREAKS and i < len(doi)]:
            lines = [
                "Aaron, A. (2018). On locks. J Water, 3, 12.", "Aaron, B. (2019).",
                f"On the long gates of the village and all their seals. J Water, 4. {prefix}{doi[:at]}",
                doi[at:], "Abel, A. (2020). On mills. J Water, 5, 17. https://doi.org/10.1000/22",
            ]  # fmt: skip
            for page in (0, 3, 11):
                entry = find_references(paper(lines, page=page)).entries[1]
                wrong += [(doi, at, page, entry.doi)] * (entry.doi not in (doi, "" if page else doi))
    assert wrong == []


@pytest.mark.parametrize(
    "end", ["10.1101/", "10.1038/nn.", "10.1016/0009-2614(80", "10.1007/978-3-", "10.1109/", "10.", "10.11"]
)
def test_a_doi_whose_end_is_missing_is_none(end: str) -> None:
    lines = ["Aaron, A. (2018). On locks. J Water, 3, 12.", f"Aaron, B. (2019). On gates. doi:{end}"]
    assert find_references(paper(lines)).entries[1].doi == ""


@pytest.mark.parametrize(
    "following",
    [
        "2004.",
        "arXiv:2101.00001",
        "https://example.org/1",
        "Accepted for publication in 2020.",
        "PMID: 12345678",
    ],
)
def test_what_follows_a_doi_is_no_part_of_it(following: str) -> None:
    lines = ["Aaron, A. (2018). On locks. J Water, 3, 12.", "Aaron, B. (2019). On gates. J Water, 4.",
             "doi:10.1000/ab12", following]  # fmt: skip
    assert find_references(paper(lines)).entries[1].doi == "10.1000/ab12"


WORKS_CITED = (
    "Abel, Ann. On Gates. Sluice Press, 2004.",
    "---. “The Water Behind Them.” Journal of Water, vol. 3, no. 2, Spring 2006, pp. 40–52.",
    "Baker, Bo, editor. The Handbook of Locks. 2nd ed., Mill Press, 1999.",
    "Cole, Carl, et al. “Weirs and Fords.” The Handbook of Locks, edited by Bo Baker, 1999, pp. 7–31.",
    "de la Cruz, María. “Night Openings.” Water Today, 3 May 2012, www.water.example/night/openings.",
    "“Gates of the Lowlands.” The Daily Mill, 12 Nov. 2015, p. A4.",
    "Hill, Dora, and Émile Innes. Ponds: A History. Translated by Fay Kim, Sluices and Sons, 2018.",
    "International Society of Weirs. Rules for Keepers. 2011, www.weirs.example/rules. Accessed 4 May 2021.",
    "Lee, Guy. “How Many Sluices Does a Village Need?” Review of Mills, vol. 17, 2003, pp. 222–34.",
    "O’Brien, Ida. “Slow Locks.” Proceedings of the 9th Conference on Water, Mill Press, 2001, pp. 1–12.",
    "Šimić, Ann. The Level of Mill Ponds. 2009. University of the Lowlands, PhD dissertation.",
)


def test_works_cited_of_every_kind_are_whole() -> None:
    for width in WIDTHS:
        lines = [
            line for entry in WORKS_CITED for line in textwrap.wrap(entry, width, break_on_hyphens=False)
        ]
        text = paper(lines, heading="Works Cited")
        assert found(text) == list(map(plain, WORKS_CITED)), width
        again = find_references(text).entries[1]
        assert (again.authors, again.title) == (("Abel, Ann",), "The Water Behind Them")


TIED = (
    "Li, R., & Abel, M. (2022). Slow locks by optimal transport.",
    "Nature Communications, 434(1), 1267–1274. https://doi.org/10.1000/s41467.0031",
    "Li, D. H., Cole, P., & Dunn, A. (2019). Coupled weirs and their discontents. Cell",
    "Reports, 420(9), 411–417. https://doi.org/10.1000/celrep.106",
    "Müller, Ü. (2018). Night openings. Journal of Water, 4, 12–19.",
)


def test_a_journal_at_the_start_of_a_line_is_no_author() -> None:
    assert found(paper(TIED)) == [plain(" ".join(TIED[i : i + 2])) for i in (0, 2, 4)]


@pytest.mark.parametrize(
    "heading", ["■ REFERENCES", "Références bibliographiques", "Referencias bibliográficas"]
)
def test_a_list_has_many_headings(heading: str) -> None:
    refs = references(5)
    lines = [f"({n}) {line}" for n, line in enumerate(expected_lines(refs), 1)]
    assert len(found(paper(lines, heading=heading))) == 5


def expected_lines(refs: Sequence[Printed]) -> list[str]:
    return [entry[0] for entry in entries(refs, "plain", 10_000)]


@pytest.mark.parametrize("prefix", ["doi:", "https://doi.org/"])
def test_a_doi_is_whole_where_lines_break_within_words(prefix: str) -> None:
    doi = "10.5194/hess-160-62375-2023"
    before = f"[1] A. Abel and B. Cole. Gates that leak, and how one comes to hear of it. {prefix}"
    after = [
        "[2] B. Baker. Weirs. Journal of Water, 4:12, 2001.",
        "[3] C. Dunn. Ponds. Journal of Water, 5:1, 2002.",
    ]
    for at in range(1, len(doi)):
        lines = [before + doi[:at], doi[at:], *after]
        assert [entry.doi for entry in find_references(paper(lines)).entries] == [doi, "", ""], at
