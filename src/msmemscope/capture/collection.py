"""`collect`: collection for the length of a block of code, or of each call of a function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from msmemscope import _native
from msmemscope.capture.decorating import run_within
from msmemscope.capture.session import session

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

_Function = TypeVar("_Function", bound="Callable[..., Any]")


class collect:  # noqa: N801 - used like a function
    """Collect memory events while a block of code runs, or each call of a function.

    ::

        with msmemscope.collect(events="alloc,free", call_stack="python"):
            train_one_epoch()

        @msmemscope.collect()
        def evaluate(model): ...

    Where collection is on already, it stays on and its settings hold: only the outermost one begins and ends.

    Args:
        **settings: As of `config`; without any, the settings in force are used.

    Raises:
        ConfigurationError: When it begins, if a setting is unknown or not accepted; nothing is collected then.
    """

    def __init__(self, **settings: Any) -> None:
        self._settings = settings
        self._began = False

    def __enter__(self) -> Self:
        """Begin to collect, unless it was begun already."""
        if session.is_tracing:
            if self._settings:
                _native.warn("collect: collection is on already, so its settings hold: " + ", ".join(self._settings))
            return self
        if self._settings:
            session.configure(**self._settings)
        session.start()
        self._began = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """Stop everything that was begun; exceptions go their way."""
        if self._began:
            self._began = False
            session.stop()

    def __call__(self, function: _Function) -> _Function:
        """Collect during each call of a function, a coroutine function or generator too."""
        return run_within(lambda: collect(**self._settings), function)
