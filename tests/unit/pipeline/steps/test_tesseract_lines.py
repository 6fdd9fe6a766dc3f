"""Columns of a scanned page are read one after the other, however Tesseract groups their words."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pipeline.steps.ocr.tesseract_lines import HEADING, text_of_page

WIDTH, LETTER, HEIGHT, LINE = 1700, 14, 28, 50
LEFT, RIGHT = 100, 900
WORDS = ["the", "gates", "hold", "the", "water", "back", "until", "the", "miller", "opens"]

Placed = tuple[int, int, str]
"""Where a text begins, on which row of the page, and the text."""


def table(*lines: Sequence[Placed], turned: bool = False) -> str:
    """Tesseract's output for these lines as it groups them, each a paragraph of its own."""
    rows = [HEADING, f"1\t1\t0\t0\t0\t0\t0\t0\t{WIDTH}\t2200\t-1\t"]
    for number, line in enumerate(lines, start=1):
        for left, row, text in line:
            at = left
            for word in text.split():
                size = (HEIGHT, LETTER * len(word)) if turned else (LETTER * len(word), HEIGHT)
                place = f"{at}\t{100 + LINE * row}\t{size[0]}\t{size[1]}"
                rows.append(f"5\t1\t{number}\t1\t1\t1\t{place}\t96.5\t{word}")
                at += LETTER * (len(word) + 1) - 4
    return "\n".join(rows) + "\n"


def sentence(side: str, row: int) -> str:
    return f"{side}{row} {' '.join(WORDS)}"


def left(row: int) -> Placed:
    return LEFT + 90, row, sentence("l", row)


def right(row: int) -> Placed:
    return RIGHT + 90, row, sentence("r", row)


def begins(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines() if line]


COLUMNS = [*(f"l{row}" for row in range(12)), *(f"r{row}" for row in range(7))]

LONG = list(map(left, range(12)))
SHORT = list(map(right, range(7)))
GROUPED = {
    "column by column": [*([each] for each in LONG), *([each] for each in SHORT)],
    "the right one first": [*([each] for each in SHORT), *([each] for each in LONG)],
    "as one column": [*([LONG[row], SHORT[row]] for row in range(7)), *([each] for each in LONG[7:])],
    "in part as one": [[LONG[0], SHORT[0]], *([each] for each in (*LONG[1:], *SHORT[1:]))],
}


@pytest.mark.parametrize("grouped", GROUPED)
def test_columns_come_one_after_the_other_however_they_are_grouped(grouped: str) -> None:
    assert begins(text_of_page(table(*GROUPED[grouped]))) == COLUMNS


@pytest.mark.parametrize("grouped", GROUPED)
def test_labels_that_are_taken_for_a_column_stand_before_their_lines(grouped: str) -> None:
    labels = [[(LEFT, row, f"[{row + 1}]")] for row in range(0, 12, 2)]
    text = text_of_page(table(*labels, *GROUPED[grouped]))
    assert begins(text) == [f"[{row + 1}]" if not row % 2 else f"l{row}" for row in range(12)] + COLUMNS[12:]
    assert f"[3] {sentence('l', 2)}" in text.splitlines()


def test_a_line_across_the_page_stands_between_what_is_above_and_below_it() -> None:
    above = [[(LEFT, row, f"a{row} {' '.join(WORDS)}")] for row in range(4)]
    above += [[(RIGHT, row, f"b{row} {' '.join(WORDS)}")] for row in range(4)]
    across = [[(LEFT, 5, f"across {' '.join(WORDS * 2)}")]]
    below = [[(LEFT, row, f"c{row} {' '.join(WORDS)}")] for row in range(6, 10)]
    below += [[(RIGHT, row, f"d{row} {' '.join(WORDS)}")] for row in range(6, 10)]
    text = text_of_page(table(*below, *across, *above))
    assert begins(text) == [
        *(f"{side}{row}" for side in "ab" for row in range(4)), "across",
        *(f"{side}{row}" for side in "cd" for row in range(6, 10)),
    ]  # fmt: skip


def test_a_row_of_a_table_is_not_divided() -> None:
    cells = [(LEFT, 0, "Policy"), (500, 0, "median"), (900, 0, "longest"), (1300, 0, "switches")]
    lines = [[(at, row + 2, text)] for at, row, text in (*LONG, *SHORT)]
    assert text_of_page(table(cells, *lines)).startswith("Policy median longest switches\n")


def test_any_other_page_is_as_tesseract_orders_it() -> None:
    whole = [[(LEFT, row, f"w{row} {' '.join(WORDS * 2)}")] for row in (3, 1, 2, 0)] * 4
    assert begins(text_of_page(table(*whole))) == ["w3", "w1", "w2", "w0"] * 4
    numbers = [[(LEFT, row, f"n{row} water"), (1300, row, "42")] for row in range(12)]
    assert begins(text_of_page(table(*numbers))) == [f"n{row}" for row in range(12)]
    mixed = GROUPED["as one column"]
    assert begins(text_of_page(table(*mixed, turned=True)))[:3] == ["l0", "l1", "l2"]
    hebrew = [[(at, row, text.translate({ord("e"): "\u05d0"} | {c: "\u05d1" for c in range(97, 123)}))
               for at, row, text in line] for line in mixed]  # fmt: skip
    assert len(text_of_page(table(*hebrew)).split("\n\n")) == 12
    assert text_of_page("a page\n") == "a page\n" and text_of_page(table()) == ""
