"""The value of `--history`, and when it holds."""

from __future__ import annotations

import pytest

from msmemscope.configuration import OPTION_BY_SPELLING, GivenOption
from msmemscope.configuration.history_interval import parse_interval
from msmemscope.errors import UsageError
from msmemscope.launch.history_timer import interval_of
from msmemscope.units import format_span

HISTORY = OPTION_BY_SPELLING["--history"]


@pytest.mark.parametrize("text, seconds", [("1s", 1), ("90min", 5400), ("1h", 3600), ("30d", 2_592_000)])
def test_times(text: str, seconds: int) -> None:
    """Seconds to days."""
    assert parse_interval("", "--every", text) == seconds


@pytest.mark.parametrize(
    "text", ["", "0s", "1", "h", "1.5h", "31d", "-1h", "1 h", "1H", "on", "99999999s", "\N{ARABIC-INDIC DIGIT ONE}h"]
)
def test_no_times(text: str) -> None:
    """They are refused, with what is accepted."""
    with pytest.raises(UsageError) as caught:
        interval_of([GivenOption(HISTORY, "--history", text)], 0)
    assert (caught.value.option, caught.value.value) == ("--history", text)
    assert caught.value.accepted == "1s to 30d: a number with s, min, h or d; or off"


def test_where_old_events_go_it_is_on() -> None:
    """Unless it is switched off; without a limit it has to be asked for. The last one counts."""

    def chosen(*values: str, maximum_size: int) -> int | None:
        return interval_of([GivenOption(HISTORY, "--history", value) for value in values], maximum_size)

    assert chosen(maximum_size=1 << 20) == 3600
    assert chosen(maximum_size=0) is None
    assert chosen("off", maximum_size=1 << 20) is None
    assert chosen("10min", maximum_size=0) == 600
    assert chosen("off", "5s", maximum_size=0) == 5


@pytest.mark.parametrize(
    "seconds, text",
    [(7 * 86400 + 3 * 3600 + 59, "7 d 3 h"), (7200, "2 h"), (7500, "2 h 5 min"), (86399, "23 h 59 min"), (61, "1 min 1 s"), (12, "12 s"), (0.25, "250.0 ms"), (86400 + 60, "1 d")],
)  # fmt: skip
def test_long_times_have_two_units(seconds: float, text: str) -> None:
    """The two largest ones."""
    assert format_span(int(seconds * 10**9)) == text
