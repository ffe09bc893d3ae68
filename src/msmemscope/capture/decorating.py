"""Functions that run within a context, each call within one of its own."""

from __future__ import annotations

import functools
import inspect
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from contextlib import AbstractContextManager

    MakeContext = Callable[[], AbstractContextManager[Any]]

_Function = TypeVar("_Function", bound="Callable[..., Any]")


def run_within(make_context: MakeContext, function: _Function, *, pauses: bool = False) -> _Function:
    """Wrap a function so that its body runs within a context.

    Coroutine functions, generators and asynchronous generators are within it while they run, not when they are called.
    Values and exceptions that are sent or thrown into a generator reach it.

    Args:
        make_context: Makes the context of one call.
        function: A function or method; anything that can be called.
        pauses: Whether the context is left while a generator waits for its user, and entered again afterwards.
            Otherwise one context spans everything from its first item to its end.

    Raises:
        TypeError: If it cannot be called.
    """
    if not callable(function):
        message = f"cannot decorate {function!r}: it is not a function"
        raise TypeError(message)
    whole, part = (nullcontext, make_context) if pauses else (make_context, nullcontext)
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            with make_context():
                return await function(*args, **kwargs)

    elif inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
            with whole():
                generator = function(*args, **kwargs)
                resume, sent = generator.asend, None
                while True:
                    with part():
                        try:
                            item = await resume(sent)
                        except StopAsyncIteration:
                            return
                    try:
                        sent = yield item
                        resume = generator.asend
                    except GeneratorExit:
                        with part():
                            await generator.aclose()
                        raise
                    except BaseException as error:  # noqa: BLE001 - it is the generator's to handle
                        resume, sent = generator.athrow, error

    elif inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            with whole():
                generator = function(*args, **kwargs)
                resume, sent = generator.send, None
                while True:
                    with part():
                        try:
                            item = resume(sent)
                        except StopIteration as end:
                            return end.value
                    try:
                        sent = yield item
                        resume = generator.send
                    except GeneratorExit:
                        with part():
                            generator.close()
                        raise
                    except BaseException as error:  # noqa: BLE001 - it is the generator's to handle
                        resume, sent = generator.throw, error

    else:

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with make_context():
                return function(*args, **kwargs)

    return cast("_Function", wrapper)
