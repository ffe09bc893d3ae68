"""A callback for the Trainer of Hugging Face transformers.

::

    from msmemscope.integrations.transformers import MsmemscopeCallback

    trainer = Trainer(model, arguments, train_recording=data, callbacks=[MsmemscopeCallback(steps="2,3", device="npu")])
    trainer.train()
"""

from __future__ import annotations

import functools
import importlib.util
from typing import TYPE_CHECKING, Any

from msmemscope.integrations.missing_package import MissingPackageError
from msmemscope.integrations.training_run import TrainingRun

if TYPE_CHECKING:
    from transformers import TrainerCallback

    class MsmemscopeCallback(TrainerCallback):
        """Collects while `Trainer.train()` runs; see `_make_class`."""

        def __init__(self, *, log_memory: bool = False, **settings: Any) -> None: ...


__all__ = ["MsmemscopeCallback"]

_WATCHED_MARK = "_msmemscope_ends_runs"


def __getattr__(name: str) -> Any:
    """Make the class when it is first asked for, so that this module can be imported without transformers."""
    if name != "MsmemscopeCallback":
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    if importlib.util.find_spec("transformers") is None:
        return _UnavailableCallback
    return globals().setdefault(name, _make_class())


class _UnavailableCallback:
    """Stands for the callback where transformers is missing."""

    def __init__(self, **_settings: Any) -> None:
        user = "msmemscope.integrations.transformers.MsmemscopeCallback"
        raise MissingPackageError(user, "transformers")


def _make_class() -> type[Any]:
    import transformers

    class MsmemscopeCallback(transformers.TrainerCallback):
        """Collects memory events while `Trainer.train()` runs, and marks its optimizer steps.

        Collection begins where training begins, after the model and the data were prepared, and ends with it, also if
        training fails. Where collection is on already, under the command line for example, it stays on, and the steps
        are marked all the same. With gradient accumulation a step is one optimizer step; evaluation makes no steps.

        Args:
            log_memory: Whether each `Trainer.log` gets figures of memory, so that TensorBoard, MLflow and others show
                them; see `logged_memory`.
            **settings: Keywords of `msmemscope.config`: `steps="2,3"` collects these steps only, counted from 1 in
                each process. Without any, the settings in force are used.

        Raises:
            ConfigurationError: If a setting is unknown or not accepted; it is a ValueError.
            MissingPackageError: If transformers is not installed; it is an ImportError.
        """

        def __init__(self, *, log_memory: bool = False, **settings: Any) -> None:
            super().__init__()
            self.run = TrainingRun(settings, logs_memory=log_memory)
            _watch(transformers.Trainer)

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
            """Begin to collect."""
            self.run.begin()

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
            """An optimizer step has ended."""
            self.run.step()

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
            """Stop collecting."""
            self.run.end()

    MsmemscopeCallback.__module__ = __name__  # where pickle finds it
    MsmemscopeCallback.__qualname__ = MsmemscopeCallback.__name__
    return MsmemscopeCallback


def _watch(trainer_class: Any) -> None:
    """Have exceptions end runs too, and have what is logged get figures of memory.

    Callbacks are told of no exception. Those that write what is logged come before ours. So the trainer's own methods
    have to be watched. They behave as before in all other ways; done once per process.
    """
    train_alone, log_alone = trainer_class.train, trainer_class.log
    if hasattr(train_alone, _WATCHED_MARK):
        return

    @functools.wraps(train_alone)
    def train(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return train_alone(self, *args, **kwargs)
        finally:
            for run in _runs_of(self):
                run.end()

    @functools.wraps(log_alone)
    def log(self: Any, logs: Any, *args: Any, **kwargs: Any) -> Any:
        figures: dict[str, float] = {}
        for run in _runs_of(self):
            figures |= run.figures()
        if not figures:
            return log_alone(self, logs, *args, **kwargs)
        logged = {**logs, **figures}
        result = log_alone(self, logged, *args, **kwargs)
        # The method adds the epoch to what `evaluate()` returns.
        logs.update({name: value for name, value in logged.items() if name not in figures})
        return result

    setattr(train, _WATCHED_MARK, True)
    trainer_class.train, trainer_class.log = train, log


def _runs_of(trainer: Any) -> list[TrainingRun]:
    runs = (getattr(callback, "run", None) for callback in trainer.callback_handler.callbacks)
    return [run for run in runs if isinstance(run, TrainingRun)]
