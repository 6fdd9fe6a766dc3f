"""Authors, title, venue and year of an entry, in every style, and how sure they are."""

# ruff: noqa: RUF001 - typographic quotes and dashes are what papers print

from __future__ import annotations

import pytest

from pipeline.steps.extract.reference import Reference
from pipeline.steps.extract.reference_fields import fields_of
from pipeline.steps.extract.reference_names import names_in
from tests.unit.pipeline.steps.reference_styles import (
    AUTHOR_YEAR,
    IN_CAPITALS,
    NUMBERED,
    WITHOUT_TITLE,
    references,
)

REFERENCES = references(24)


@pytest.mark.parametrize("style", [*AUTHOR_YEAR, *NUMBERED])
def test_an_entry_of_any_style_is_divided_into_what_was_printed(style: str) -> None:
    write = {**AUTHOR_YEAR, **NUMBERED}[style]
    for ref in REFERENCES:
        found = fields_of(write(ref))
        families = [family.upper() if style in IN_CAPITALS else family for family, _ in ref.authors]
        assert [name.partition(",")[0] for name in found.authors] == families
        assert found.title.rstrip("?") == ("" if style in WITHOUT_TITLE else ref.title.rstrip("?"))
        assert (found.venue, found.year) == (ref.venue, ref.year)
        assert found.confidence >= (0.5 if style in WITHOUT_TITLE else 0.9)


@pytest.mark.parametrize(
    ("block", "names"),
    [
        ("Abel, A. B., & van der Berg, C.", ("Abel, A. B.", "van der Berg, C.")),
        ("Ann B. Abel and Carl van der Berg", ("Abel, Ann B.", "van der Berg, Carl")),
        ("A. B. Abel, C. Cole", ("Abel, A. B.", "Cole, C.")),
        ("Abel AB, Cole C", ("Abel, AB", "Cole, C")),
        ("Abel, Ann; Cole, Bo", ("Abel, Ann", "Cole, Bo")),
        ("Abel, Ann, and Bo Cole", ("Abel, Ann", "Cole, Bo")),
        ("Ford, Jr., W. K., & Abel, A.", ("Ford, W. K.", "Abel, A.")),
        ("Abel, A., Cole, B., et al.", ("Abel, A.", "Cole, B.")),
        ("Abel, A., … Stewart, S. G.", ("Abel, A.", "Stewart, S. G.")),
        ("Abel, A., & others", ("Abel, A.",)),
        ("Microsoft Open Source, McFarland, M.", ("Microsoft Open Source", "McFarland, M.")),
        ("The Society for Weirs and Mills", ("The Society for Weirs and Mills",)),
        ("World Water Organization", ("World Water Organization",)),
        ("Abel, A. (Ed.)", ("Abel, A.",)),
        ("", ()),
    ],
)
def test_authors_are_named_family_name_first_and_a_corporation_as_it_is(
    block: str, names: tuple[str, ...]
) -> None:
    assert names_in(block) == names


@pytest.mark.parametrize(
    ("entry", "title", "venue", "year"),
    [
        ("Cant, S. (2002). Fluids. Philosophical Transactions. Series A: Physics, 360(1795), 1211–1225.",
         "Fluids", "Philosophical Transactions. Series A: Physics", 2002),
        ("Abel, A. (2003). Gates in R. R Journal, 9(2), 163–175.", "Gates in R", "R Journal", 2003),
        ("Abel, A. (1993). Density. III. The role of exchange. The Journal of Chemistry, 98(7), 56–65.",
         "Density. III. The role of exchange", "The Journal of Chemistry", 1993),
        ("Tan, P. (2017). Data mining (2nd Edition). Pearson. ISBN: 978-0133128901",
         "Data mining", "Pearson", 2017),
        ("The smallest known gate. (2008). In Scientific American. Springer Nature.",
         "The smallest known gate", "Scientific American", 2008),
        ("Abel, A. (2010). On gates. In B. Cole (Ed.), Proceedings of the 9th Water Conference (pp. 56–61).",
         "On gates", "Proceedings of the 9th Water Conference", 2010),
        ("[12] A. Abel, “On gates,” Phys. Rev. Lett. 66, 1987–1995 (1991).",
         "On gates", "Phys. Rev. Lett.", 1991),
        ("Abel, A. (2021). On gates. arXiv:2101.00001. https://arxiv.org/abs/2101.00001",
         "On gates", "arXiv", 2021),
        ("CMS Collaboration,Performance of the gates in 2015, Eur. Phys. J. C77 (2017) 317, arXiv: 1611.0966",
         "Performance of the gates in 2015", "Eur. Phys. J.", 2017),
        ("[4] X. Chen et al., Mass and charge to third order in QCD, Phys. Lett. B 840(2023) 137876.",
         "Mass and charge to third order in QCD", "Phys. Lett. B", 2023),
        ("[1] Seth D. Axen. ManifoldGates.jl. https://github.com/example/ManifoldGates.jl, 2021.",
         "ManifoldGates.jl", "", 2021),
        ("Abel, A. (n.d.). Gates. Retrieved May 3, 2021, from https://example.org", "Gates", "", None),
    ],
)  # fmt: skip
def test_what_is_near_a_field_is_not_taken_for_it(
    entry: str, title: str, venue: str, year: int | None
) -> None:
    found = fields_of(entry)
    assert (found.title, found.venue, found.year) == (title, venue, year)


@pytest.mark.parametrize("entry", ["", "1999", "Nothing that is an entry", "http://example.org/a"])
def test_what_cannot_be_divided_is_not_trusted(entry: str) -> None:
    assert fields_of(entry).confidence <= 0.3


def test_a_record_of_an_older_version_is_read() -> None:
    record = {"text": "[1] A.", "doi": "", "arxiv_id": "", "number": 1, "of_a_later_one": 3}
    assert Reference.of_record(record) == Reference("[1] A.", "", "", 1)
