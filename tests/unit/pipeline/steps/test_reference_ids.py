"""The DOI and arXiv id of an entry, as papers print them and break lines in them."""

from __future__ import annotations

import pytest

from pipeline.steps.extract.reference_ids import arxiv_id_of, doi_of

YEARS = [form.format(year) for year in ("1599", "2019", "2018a") for form in ("{}", "{}.", "({})", "({}).")]


@pytest.mark.parametrize("of_entry", [False, True])
@pytest.mark.parametrize("sign", ["", ",", "”"])
@pytest.mark.parametrize("doi", ["10.5194/hess-22-1-2018", "10.1000/abc123"])
def test_a_year_on_the_next_line_is_none_of_the_doi(doi: str, sign: str, of_entry: bool) -> None:
    for year in YEARS:
        assert doi_of([f"https://doi.org/{doi}{sign}", year], of_entry) == doi, year
    assert doi_of([f"https://doi.org/{doi},", "117."], of_entry) == doi


@pytest.mark.parametrize(
    ("lines", "doi"),
    [
        (["doi:10.1126/science.1117727"], "10.1126/science.1117727"),
        (["J. Things 3 (2004) 12, https://doi.org/10.1000/ab.c1."], "10.1000/ab.c1"),
        (["(doi: 10.1000/ab(c)d)"], "10.1000/ab(c)d"),
        (["“On things”, doi: 10.1000/182”."], "10.1000/182"),
        (["[10.1000/182]"], "10.1000/182"),
        (["https://doi.org/10.1051/0004-6361/", "201116634"], "10.1051/0004-6361/201116634"),
        (["https://doi.org/10.1111/j.", "1365-2966.2008.13422.x"],
         "10.1111/j.1365-2966.2008.13422.x"),
        (["doi:10.1007/978-3-", "642-00602-9_25."], "10.1007/978-3-642-00602-9_25"),
        (["doi:10.1007/", "BF02603120"], "10.1007/BF02603120"),
        (["Zenodo. https://doi.org/10.", "5281/zenodo.7261897"], "10.5281/zenodo.7261897"),
        (["Zenodo. doi:10.5281/zenodo.5520061.", "Accepted for publication in 2020."],
         "10.5281/zenodo.5520061"),
        (["doi:10.1016/0031-9163(64)91136-9."], "10.1016/0031-9163(64)91136-9"),
        (["10.1000/182, 10.1000/183"], "10.1000/182"),
        (["pp. 110.1000/182 and 1.10.1000/3"], ""),
        (["Journal of Things 10.2 (2004)"], ""),
        ([""], ""),
        ([], ""),
    ],
)  # fmt: skip
def test_a_doi_is_found_whole_and_without_the_signs_around_it(lines: list[str], doi: str) -> None:
    assert doi_of(lines) == doi


@pytest.mark.parametrize(
    ("text", "arxiv_id"),
    [
        ("JHEP 11 (2020) 143, arXiv: 2007.13313 [hep-ph].", "2007.13313"),
        ("arXiv:hep-ex/0509008.", "hep-ex/0509008"),
        ("ARXIV:math.GT/0309136v2", "math.GT/0309136v2"),
        ("https://arxiv.org/abs/1510.06262", "1510.06262"),
        ("http://arxiv.org/pdf/2101.00001v3", "2101.00001v3"),
        ("doi:10.48550/ARXIV.2401.03555.", "2401.03555"),
        ("CoRR, abs/1412.6980, 2014", "1412.6980"),
        ("Phys. Rev. D 1206.4071", ""),
        ("and/or 1234567", ""),
    ],
)
def test_an_arxiv_id_is_found_behind_any_of_its_prefixes(text: str, arxiv_id: str) -> None:
    assert arxiv_id_of(text) == arxiv_id
