"""The size of a test run: `make test` tries a little of everything, `make test-nightly` all of it."""

from __future__ import annotations

import os
from typing import Final

import pytest

VARIABLE: Final = "MSMEMSCOPE_NIGHTLY"
"""Environment variable: the night, a whole number. `make test-nightly` sets it to the date."""

NIGHT: Final = int(os.environ.get(VARIABLE) or 0)
"""0 in an ordinary run. Random inputs are others each night, and the same if the night is given again."""

nightly: Final = pytest.mark.skipif(not NIGHT, reason="run by make test-nightly, a variant of what runs by day")
"""For a case of which another one shows the same by day: on another device, with another option, at another moment."""
