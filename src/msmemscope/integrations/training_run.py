"""Collection for the length of a training run, as the callbacks of trainers tell of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msmemscope.capture.collection import collect
from msmemscope.capture.session import session
from msmemscope.configuration import Config, with_keywords
from msmemscope.integrations.logged_memory import LoggedMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class TrainingRun:
    """Begins collection with a training run, counts its steps, and ends the collection that it began.

    Args:
        settings: Keywords of `msmemscope.config`.
        logs_memory: Whether `figures` has any.

    Raises:
        ConfigurationError: If a setting is unknown or not accepted.
    """

    def __init__(self, settings: Mapping[str, Any], *, logs_memory: bool = False) -> None:
        with_keywords(Config(), settings)  # a mistake is told where it is made, not hours later
        self._settings = dict(settings)
        self._collection: collect | None = None
        self._memory = LoggedMemory() if logs_memory else None

    def begin(self) -> None:
        """Begin to collect, unless that was done: by this run, by the program, or by the command line."""
        if self._collection is None:
            self._collection = collect(**self._settings).__enter__()

    def step(self) -> None:
        """One optimizer step has ended."""
        if self._collection is not None:
            session.step()

    def figures(self) -> dict[str, float]:
        """Return figures of memory for the loggers of the trainer, by name, in MiB; none unless they were asked for."""
        return {} if self._memory is None else self._memory.figures()

    def log_memory(self, log: Callable[[dict[str, float]], object]) -> None:
        """Log the figures, if there are any. If they are refused, one line on stderr says so, and there are no more."""
        figures = self.figures()
        if self._memory is None or not figures:
            return
        try:
            log(figures)
        except Exception as error:  # noqa: BLE001 - the training goes on, whatever a logger thinks of the figures
            self._memory.fail(error)

    def end(self) -> None:
        """Stop collecting if `begin` began it."""
        collection, self._collection = self._collection, None
        if collection is not None:
            collection.__exit__()

    def __getstate__(self) -> dict[str, Any]:
        """A copy in another process has begun nothing there."""
        return {"_settings": self._settings, "_collection": None, "_memory": self._memory}
