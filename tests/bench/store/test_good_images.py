"""Masks of good images as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.store.good_images import decode, encode


@given(st.lists(st.booleans()))
def test_what_is_encoded_is_decoded(good: list[bool]) -> None:
    text = encode(good)

    assert len(text) == (len(good) + 3) // 4
    assert decode(text, len(good)).tolist() == good


def test_the_first_image_is_the_highest_bit_of_the_first_digit() -> None:
    assert encode([True, False, False, False, False, True]) == "84"
    assert decode("84", 6).tolist() == [True, False, False, False, False, True]
    assert encode([]) == ""


@pytest.mark.parametrize(
    ("text", "n"), [("8", 6), ("844", 6), ("8g", 6), ("8 ", 6), ("0x", 6), ("", 1), ("8", 0), ("85", 6), ("FF", 8)]
)
def test_what_is_no_mask_of_n_images_is_refused(text: str, n: int) -> None:
    with pytest.raises(ValueError, match=f"{n} images"):
        decode(text, n)
