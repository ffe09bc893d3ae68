"""`RecordFunction`: one row of the Python trace for a piece of code that the program names itself."""

from __future__ import annotations

from contextvars import ContextVar
from time import time_ns
from typing import TYPE_CHECKING, Any, TypeVar

from msmemscope import _native
from msmemscope.capture.function_trace import leave_untraced
from msmemscope.capture.session import session
from msmemscope.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

_Function = TypeVar("_Function", bound="Callable[..., Any]")

LONGEST_NAME_BYTES = 128
_SHOWN_CHARACTERS = 40

_record_function = _native.record_function


class RecordFunction:
    """Record when a piece of code begins and ends, under a name, as a row of the Python trace.

    ::

        with msmemscope.RecordFunction("forward_pass"):
            output = model(data)

        @msmemscope.RecordFunction("forward_pass")
        def forward_pass(data):
            return model(data)

    Needs neither a running tracer nor `start()`. Unless `msmemscope.tracer` is on, nothing is recorded in three cases:

    - while collection waits for `start()` under the command line (`--collect-mode=deferred`);
    - between `stop()` and the next `start()`;
    - in steps that `steps` leaves out.

    The moment at which the code ends decides.

    Coroutine functions and generators are recorded from their first step to their end, waiting included. A class
    cannot be decorated, its methods can. One object can be used any number of times, nested, and by several threads.

    Args:
        name: The text that the row shows as FuncInfo: 1 to 128 bytes.

    Raises:
        TypeError: If the name is no string.
        ConfigurationError: If it is empty or too long; it is a ValueError.
    """

    __slots__ = ("_is_shared", "_name", "_start_ns")

    def __init__(self, name: str) -> None:
        self._name = _checked(name)
        self._start_ns = 0
        self._is_shared = False

    def __repr__(self) -> str:
        return f"RecordFunction({self._name!r})"

    def __enter__(self) -> RecordFunction:  # noqa: PYI034 - Self is newer than Python 3.10
        """Begin."""
        if self._start_ns:
            self._enter_again()
        else:
            self._start_ns = time_ns()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """End, and record; exceptions go their way."""
        start_ns = self._end_of_again() if self._is_shared else 0
        if not start_ns:
            start_ns, self._start_ns = self._start_ns, 0
        if start_ns and _is_wanted():
            _record_function(self._name, start_ns)

    def __call__(self, function: _Function) -> _Function:
        """Record each call of a function or method, a coroutine function or generator too.

        Raises:
            TypeError: If it is a class, or nothing that can be called.
        """
        if isinstance(function, type):
            message = f"RecordFunction cannot decorate the class {function.__qualname__}: decorate its methods"
            raise TypeError(message)
        from msmemscope.capture.decorating import run_within

        name = self._name
        if isinstance(function, (staticmethod, classmethod)):
            return type(function)(run_within(lambda: _Call(name), function.__func__))
        return run_within(lambda: _Call(name), function)

    def _enter_again(self) -> None:
        """Entered while it is entered already: nested, or by another thread or task, which has a context of its own."""
        self._is_shared = True
        _entered_again.set((self, time_ns(), _entered_again.get()))

    def _end_of_again(self) -> int:
        """When the innermost one that was entered again here began; 0 if there is none."""
        passed: list[tuple[RecordFunction, int]] = []
        entry = _entered_again.get()
        while entry is not None:
            owner, start_ns, outer = entry
            if owner is self:
                for between, its_start_ns in reversed(passed):
                    outer = (between, its_start_ns, outer)
                _entered_again.set(outer)
                return start_ns
            passed.append((owner, start_ns))
            entry = outer
        return 0


_Entry = tuple[RecordFunction, int, Any]
"""Who was entered again, when, and the entry outside of it."""

_entered_again: ContextVar[_Entry | None] = ContextVar("msmemscope_record_function", default=None)


class _Call:
    """One call of a decorated function: a `RecordFunction` that nobody else has, whose name is known to be good."""

    __slots__ = ("_name", "_start_ns")

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._start_ns = time_ns()

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if _is_wanted():
            _record_function(self._name, self._start_ns)


def _is_wanted() -> bool:
    if session.is_tracing:
        return _native.is_collecting() or not session.config.steps or _native.function_trace_is_on()
    return _native.function_trace_is_on() or session.records_marks


def _checked(name: object) -> str:
    if not isinstance(name, str):
        message = f"name must be a string, not {type(name).__name__}: {name!r}"
        raise TypeError(message)
    length = len(name.encode("utf-8", "surrogatepass"))
    if not name or length > LONGEST_NAME_BYTES:
        message = f"too long with {length} bytes" if name else "an empty name"
        value = name if len(name) <= _SHOWN_CHARACTERS else f"{name[:_SHOWN_CHARACTERS]}…"
        raise ConfigurationError(message, option="name", value=value, accepted=f"1 to {LONGEST_NAME_BYTES} bytes")
    return name


leave_untraced(
    *(
        method.__code__
        for method in (
            RecordFunction.__init__,
            RecordFunction.__enter__,
            RecordFunction.__exit__,
            _Call.__init__,
            _Call.__enter__,
            _Call.__exit__,
        )
    )
)
