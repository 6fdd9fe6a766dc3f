"""Columns are read from left to right, in whatever order a program drew them."""

from __future__ import annotations

import pytest

from pipeline.steps.pdf.column_order import DrawnLines

FLAT = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


def column(name: str, x: float, top: float, lines: int = 12) -> list[tuple[str, float, float]]:
    return [(f"{name} {n}\n", x, top - 10 * n) for n in range(lines)]


LEFT, RIGHT = column("left", 50, 600), column("right", 320, 600)
TITLE = [("A title\n", 200, 740.0), ("Its authors\n", 180, 720.0)]
NUMBER = [("7\n", 306.0, 30.0)]


def read(*parts: list[tuple[str, float, float]], cm: tuple[float, ...] = FLAT) -> list[str]:
    drawn, text = DrawnLines(), ""
    for part in parts:
        for piece, x, y in part:
            drawn.see(piece, cm, (1.0, 0.0, 0.0, 1.0, x, y))
            text += piece
    return [line.rpartition(" ")[0] for line in drawn.in_order(text, 0, 612).split("\n") if line]


def names(*order: str) -> list[str]:
    return [name for name in order for _ in range(12)]


@pytest.mark.parametrize("parts", [(RIGHT, LEFT), (LEFT, RIGHT)])
def test_the_left_column_comes_first(parts: tuple[list[tuple[str, float, float]], ...]) -> None:
    assert read(*parts) == names("left", "right")


def test_a_title_stays_above_and_a_page_number_ends_no_column() -> None:
    assert read(TITLE, RIGHT, NUMBER, LEFT)[:2] == ["A", "Its"]
    assert [line for line in read(TITLE, RIGHT, NUMBER, LEFT) if line in ("left", "right")] == names(
        "left", "right"
    )


def test_columns_one_below_the_other_keep_their_order() -> None:
    """The upper half of a page, and then the lower one: each has two columns."""
    lower_left, lower_right = column("lower", 50, 300), column("last", 320, 300)
    assert read(LEFT, RIGHT, lower_left, lower_right) == names("left", "right", "lower", "last")


def test_a_note_below_the_left_column_stays_where_it_is() -> None:
    note = column("note", 50, 110, lines=7)
    long = column("right", 320, 600, lines=50)
    assert read(LEFT, long, note)[-7:] == ["note"] * 7


def test_lines_indented_far_in_one_column_are_no_column() -> None:
    verse = column("verse", 320, 480, lines=8)
    below = column("below", 50, 380)
    assert read(LEFT, verse, below) == [*names("left"), *["verse"] * 8, *names("below")]


def test_a_page_whose_right_column_is_the_first_is_left_alone() -> None:
    arabic = [("\u0645\u0627\u0621 \u0648\n", x, y) for _, x, y in RIGHT]
    hebrew = [("\u05de\u05d9\u05dd \u05d5\n", x, y) for _, x, y in LEFT]
    assert read(arabic, hebrew) == ["\u0645\u0627\u0621"] * 12 + ["\u05de\u05d9\u05dd"] * 12


def test_turned_text_is_left_alone() -> None:
    assert read(RIGHT, LEFT, cm=(0.0, 1.0, -1.0, 0.0, 0.0, 0.0)) == names("right", "left")


def test_nothing_of_a_text_that_does_not_end_is_lost() -> None:
    drawn = DrawnLines()
    for piece, x, y in [*RIGHT, *LEFT[:-1], ("left end", 50, 480)]:
        drawn.see(piece, FLAT, (1.0, 0.0, 0.0, 1.0, x, y))
    text = "".join(piece for piece, _, _ in drawn.pieces)
    assert sorted(drawn.in_order(text, 0, 612).split()) == sorted(text.split())
