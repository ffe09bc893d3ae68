"""Calls a small Python function again and again, and prints the time of a call."""

from __future__ import annotations

import json
import time

CALLS = 100_000
WARM_UP = 1_000


def outer(number: int) -> int:
    """Call another function, so that calls nest."""
    return inner(number) + 1


def inner(number: int) -> int:
    """Do next to nothing."""
    return number + 1


def loop(calls: int) -> int:
    """Make so many calls, two at a time; return the nanoseconds that they took."""
    begin = time.perf_counter_ns()
    for number in range(calls // 2):
        outer(number)
    return time.perf_counter_ns() - begin


def main() -> None:
    """Measure, and print one line of JSON."""
    loop(WARM_UP)
    print(json.dumps({"value": loop(CALLS) / CALLS}))


if __name__ == "__main__":
    main()
