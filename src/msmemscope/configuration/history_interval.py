"""The time between two moments of a run's history."""

from __future__ import annotations

import re
from typing import Final

from msmemscope.errors import UsageError

DEFAULT_INTERVAL: Final = "1h"
NO_HISTORY: Final = "off"
ACCEPTED_TIMES: Final = "1s to 30d: a number with s, min, h or d, such as 1h"
_LONGEST_S: Final = 30 * 86400
_SECONDS: Final = {"s": 1, "min": 60, "h": 3600, "d": 86400}


def parse_interval(accepted: str, spelling: str, text: str) -> int:
    """Read a time.

    Args:
        accepted: The accepted values, in words.
        spelling: The option, for the error.
        text: Its value.

    Returns:
        Seconds.

    Raises:
        UsageError: It is no such time.
    """
    found = re.fullmatch("([0-9]{1,7})(s|min|h|d)", text.strip(), re.ASCII)
    seconds = int(found[1]) * _SECONDS[found[2]] if found is not None else 0
    if not 1 <= seconds <= _LONGEST_S:
        message = "is no time between two moments"
        raise UsageError(message, option=spelling, value=text, accepted=accepted)
    return seconds
