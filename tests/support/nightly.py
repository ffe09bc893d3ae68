"""The size of a test run: `make test` tries a little of everything, `make test-nightly` all of it."""

from __future__ import annotations

import os
from typing import Final

import pytest
from hypothesis import settings

VARIABLE: Final = "MSMEMSCOPE_NIGHTLY"
"""Environment variable: the night, a whole number. `make test-nightly` sets it to the date."""

NIGHT: Final = int(os.environ.get(VARIABLE) or 0)
"""0 in an ordinary run. Random inputs are others each night, and the same if the night is given again."""

nightly: Final = pytest.mark.skipif(not NIGHT, reason="run by make test-nightly, a variant of what runs by day")
"""Marks a case for the night. Another case shows the same by day: on another device, with another option, or at another
moment."""

_NIGHTLY_FACTOR: Final = 40
"""Of the examples of a property: 100 by day, 4,000 at night."""


def examples(by_day: int) -> settings:
    """Returns the settings of a property whose examples take long: fewer by day than others have, and as many more at night.

    Args:
        by_day: How many.
    """
    return settings(max_examples=by_day * _NIGHTLY_FACTOR if NIGHT else by_day)
