import pytest

from lfiw.host import size_text


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [
        (0, "0.0 MB"),
        (1.26e6, "1.3 MB"),
        (99.9e6, "99.9 MB"),
        (100e6, "0.10 GB"),
        (14e9, "14.00 GB"),
    ],
)
def test_sizes_are_told_in_a_unit_that_shows_them(num_bytes: float, text: str) -> None:
    assert size_text(num_bytes) == text
