"""Calls functions of every kind and prints how often each was entered, as Python's own profiler hook counts them."""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

counts: dict[str, int] = {}


def counted(name: str) -> None:
    """Count a call; called as the first thing of each function below."""
    counts[name] = counts.get(name, 0) + 1


def leaf(number: int) -> int:
    """Call a builtin."""
    counted("leaf")
    return abs(number)


def branch(depth: int) -> int:
    """Recurse."""
    counted("branch")
    return leaf(depth) if depth == 0 else branch(depth - 1) + leaf(depth)


def failing() -> None:
    """Leave by an exception, through a builtin that fails."""
    counted("failing")
    int("no number")


def numbers() -> Any:
    """Be entered again after each yield."""
    for number in range(3):
        counted("numbers")
        yield number
    counted("numbers")


class Thing:
    """Has a method."""

    def method(self) -> int:
        """Call a function."""
        counted("method")
        return leaf(1)


def in_thread() -> None:
    """Work in another thread."""
    counted("in_thread")
    branch(2)


def main() -> None:
    """Call everything."""
    for _ in range(50):
        branch(4)
    for _ in range(7):
        try:
            failing()
        except ValueError:  # noqa: PERF203 - the exception is the point
            counted_failures.append(1)
    list(numbers())
    Thing().method()
    threads = [threading.Thread(target=in_thread) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(counts))
    sys.stdout.flush()


counted_failures: list[int] = []

if __name__ == "__main__":
    main()
