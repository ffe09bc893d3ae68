"""RecordFunction: which calls are recorded, under which name, and when they began and ended."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from msmemscope import RecordFunction
from msmemscope.capture import record_function

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


class Row(NamedTuple):
    """One row, as the native recorder would write it."""

    name: str
    start_ns: int
    end_ns: int


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[Row]:
    """The recorded calls, without a log: these tests must not leave one in the current directory."""
    found: list[Row] = []
    monkeypatch.setattr(
        record_function, "_record_function", lambda name, start_ns: found.append(Row(name, start_ns, time.time_ns()))
    )
    monkeypatch.setattr(record_function, "_is_wanted", lambda: True)
    return found


def test_a_block_is_recorded_also_if_it_fails(rows: list[Row]) -> None:
    """The exception goes its way, and the times are those of the block."""
    before = time.time_ns()

    def fail() -> None:
        with RecordFunction("outer"):
            with RecordFunction("inner"):
                pass
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    inner, outer = rows
    assert (inner.name, outer.name) == ("inner", "outer")
    assert before <= outer.start_ns <= inner.start_ns <= inner.end_ns <= outer.end_ns <= time.time_ns()


@pytest.mark.parametrize("name", [5, None, b"bytes", ["list"]])
def test_a_name_that_is_no_string_is_a_type_error(name: Any) -> None:
    """The message has the type and the value."""
    with pytest.raises(TypeError, match=f"not {type(name).__name__}: "):
        RecordFunction(name)


def test_names_have_at_most_128_bytes() -> None:
    """Bytes, not characters; the message shows the beginning of the value and its length."""
    RecordFunction("a" * 128)
    RecordFunction("é" * 64)
    with pytest.raises(ValueError, match="129 bytes: 'aaaa"):
        RecordFunction("a" * 129)
    with pytest.raises(ValueError, match="130 bytes: 'éééé"):
        RecordFunction("é" * 65)
    with pytest.raises(ValueError, match="an empty name"):
        RecordFunction("")


def test_functions_of_every_kind_stay_what_they_are(rows: list[Row]) -> None:
    """Plain functions, methods, static and class methods, generators, coroutines, asynchronous generators."""

    class Thing:
        @RecordFunction("method")
        def method(self, value: int) -> int:
            return value

        @RecordFunction("static")
        @staticmethod
        def static(value: int) -> int:
            return value

        @RecordFunction("of class")
        @classmethod
        def of_class(cls, value: int) -> tuple[type, int]:
            return cls, value

    @RecordFunction("generator")
    def generator() -> Iterator[Any]:
        received = yield 1
        yield received

    @RecordFunction("coroutine")
    async def coroutine() -> int:
        await asyncio.sleep(0)
        return 7

    @RecordFunction("async generator")
    async def async_generator() -> AsyncIterator[int]:
        yield 1
        yield 2

    assert Thing().method(3) == 3
    assert Thing.static(4) == 4
    assert Thing.of_class(5) == (Thing, 5)
    running: Any = generator()
    assert next(running) == 1
    assert running.send(9) == 9
    assert "generator" not in [row.name for row in rows], "recorded before its end"
    running.close()

    async def collect() -> list[int]:
        return [item async for item in async_generator()]

    assert asyncio.run(coroutine()) == 7
    assert asyncio.run(collect()) == [1, 2]
    assert [row.name for row in rows] == ["method", "static", "of class", "generator", "coroutine", "async generator"]
    assert inspect.isgeneratorfunction(generator)
    assert inspect.iscoroutinefunction(coroutine)
    assert inspect.isasyncgenfunction(async_generator)
    assert Thing.method.__name__ == "method"


def test_a_class_cannot_be_decorated() -> None:
    """It would not be a class any more."""
    with pytest.raises(TypeError, match="Thing: decorate its methods"):

        @RecordFunction("thing")
        class Thing:
            pass


def test_one_object_can_be_nested(rows: list[Row]) -> None:
    """Each end belongs to the innermost beginning."""
    shared = RecordFunction("shared")
    with shared, shared:
        middle = time.time_ns()
        with shared:
            pass
    innermost, inner, outer = rows
    assert outer.start_ns <= inner.start_ns <= middle <= innermost.start_ns
    assert innermost.end_ns <= inner.end_ns <= outer.end_ns


def test_one_object_can_be_shared_by_tasks(rows: list[Row]) -> None:
    """Tasks that take turns in one thread end their own beginnings."""
    shared = RecordFunction("shared")
    begins: dict[str, int] = {}
    ends: list[str] = []

    async def work(name: str, enters: float, leaves: float) -> None:
        await asyncio.sleep(enters)
        begins[name] = time.time_ns()
        with shared:
            await asyncio.sleep(leaves)
        ends.append(name)

    async def main() -> None:
        await asyncio.gather(work("a", 0, 0.03), work("b", 0.01, 0.04), work("c", 0.02, 0.01))

    asyncio.run(main())
    for name, row in zip(ends, rows, strict=True):
        assert 0 <= row.start_ns - begins[name] < 5_000_000, name


def test_one_object_can_be_shared_by_threads(rows: list[Row]) -> None:
    """Threads whose blocks overlap end their own beginnings."""
    shared = RecordFunction("shared")
    lasting = {0.06: 0, 0.02: 0, 0.04: 0}

    def work(seconds: float) -> None:
        with shared:
            time.sleep(seconds)

    threads = [threading.Thread(target=work, args=(seconds,)) for seconds in lasting]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = sorted(row.end_ns - row.start_ns for row in rows)
    assert len(took) == 3
    for duration_ns, seconds in zip(took, sorted(lasting), strict=True):
        assert duration_ns >= seconds * 1e9
