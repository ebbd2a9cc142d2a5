"""Words for numbers and names, and for packages that are not there."""

from __future__ import annotations

import pytest

from anypca._optional import optional
from anypca._words import counted, distinct, listed, numbered, percent, quoted, shorten


def test_numbers_in_words() -> None:
    assert (counted(1, "row"), counted(0, "row"), counted(2, "row")) == ("1 row", "0 rows", "2 rows")
    assert (percent(0.1234), percent(float("nan"))) == ("12.3 %", "–")


def test_names_for_what_has_none_or_the_same() -> None:
    assert numbered("x", 3) == ("x1", "x2", "x3")
    assert distinct(["a", "b", "a", "a"]) == ("a", "b", "a#2", "a#3")


def test_lists_are_cut() -> None:
    assert listed([1, 2, 3], most=2) == "1, 2 and 1 more"
    assert quoted(["a", "b"]) == "'a', 'b'"
    assert listed(["aa", "b"], form=str.upper) == "AA, B"


@pytest.mark.parametrize("most", [4, 10, 24])
def test_long_names_keep_both_ends(most: int) -> None:
    short = shorten("first\n name of a very long list", most)
    assert len(short) == most
    assert short[0] == "f"
    assert short[-1] == "t"
    assert shorten("name", most) == "name"


def test_a_package_that_is_missing_is_named_with_its_extra() -> None:
    with (
        pytest.raises(
            ImportError, match=r"^drawing needs nonsuch; install it with pip install 'anypca\[plot\]'\.$"
        ),
        optional("drawing", "nonsuch", "plot"),
    ):
        import nonsuch  # type: ignore[import-not-found]  # noqa: F401
