"""Words for numbers and names, and for packages that are not there."""

from __future__ import annotations

import pytest

from anypca._optional import optional
from anypca._words import counted, distinct, is_date, listed, numbered, percent, quoted, shorten


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


@pytest.mark.parametrize(
    "text",
    [
        *(
            "2021-03-04",
            "04/03/2021",
            "4.3.21",
            "4 Mar 2021",
            "March 4, 2021",
            "Mar 2021",
            "4-Mar-21",
            "2021-03",
        ),
        *(
            "2021/03/04 12:30",
            "2021-03-04T12:30:05Z",
            "03.04.2021 08:15:00",
            "1. März 2021",
            "Jan-21",
            "2021 Dec 5",
        ),
        *("Sept. 3, 2020", "Dezember 2020", "12:30", "11:05 pm"),
    ],
)
def test_dates(text: str) -> None:
    assert is_date(text)
    assert is_date(f" {text} ")


@pytest.mark.parametrize(
    "text",
    [
        *(
            "1.5",
            "12",
            "2021",
            "1-2",
            "3/4",
            "mar",
            "may be",
            "1.2.3.4",
            "10-20",
            "12:3",
            "1,5",
            "2021-13",
            "marx 12",
        ),
        *("4.3.2", "1:200", "1234-5678", "123-45-6789", "4.3/21", "1.234.567", ""),
    ],
)
def test_no_dates(text: str) -> None:
    assert not is_date(text)


def test_a_package_that_is_missing_is_named_with_its_extra() -> None:
    with (
        pytest.raises(
            ImportError, match=r"^drawing needs nonsuch; install it with pip install 'anypca\[plot\]'\.$"
        ),
        optional("drawing", "nonsuch", "plot"),
    ):
        import nonsuch  # type: ignore[import-not-found]  # noqa: F401
