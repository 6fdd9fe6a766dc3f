"""What a sentence leaves at the end of an identifier: its punctuation, and brackets it was in. Pure."""

from __future__ import annotations

from collections.abc import Mapping


def without_closing(name: str, signs: str, pairs: Mapping[str, str]) -> str:
    """Without the signs at its end, and without closing brackets there that nothing in it opened.

    `pairs`: the opening bracket of each closing one. Counts once, so it takes linear time.
    """
    unmatched = {closing: name.count(closing) - name.count(opening) for closing, opening in pairs.items()}
    end = len(name)
    while end:
        last = name[end - 1]
        if unmatched.get(last, 0) > 0:
            unmatched[last] -= 1
        elif last not in signs:
            break
        end -= 1
    return name[:end]
