"""A callback for the Trainer of Lightning, from the package `lightning` or the older `pytorch_lightning`.

::

    from msmemscope.integrations.lightning import MsmemscopeCallback

    trainer = lightning.Trainer(max_epochs=1, callbacks=[MsmemscopeCallback(steps="2,3", device="npu")])
    trainer.fit(module, data)
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

from msmemscope.integrations.missing_package import MissingPackageError
from msmemscope.integrations.training_run import TrainingRun

if TYPE_CHECKING:
    from lightning.pytorch.callbacks import Callback

    class MsmemscopeCallback(Callback):
        """Collects while `Trainer.fit()` trains; see `_make_class`."""

        def __init__(self, *, log_memory: bool = False, **settings: Any) -> None: ...


__all__ = ["MsmemscopeCallback"]

_PACKAGES = ("lightning", "pytorch_lightning")
_MODULES = ("lightning.pytorch", "pytorch_lightning")


def __getattr__(name: str) -> Any:
    """Make the class when it is first asked for, so that this module can be imported without Lightning."""
    if name != "MsmemscopeCallback":
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    bases = _callback_classes()
    return globals().setdefault(name, _make_class(bases)) if bases else _UnavailableCallback


def _callback_classes() -> tuple[type[Any], ...]:
    """The base classes of callbacks in the packages that the program uses; of those installed, if it uses none yet."""
    used = [module for module in _MODULES if module in sys.modules]
    if not used:
        pairs = zip(_PACKAGES, _MODULES, strict=True)
        used = [module for package, module in pairs if importlib.util.find_spec(package) is not None][:1]
    found = (importlib.import_module(f"{module}.callbacks").Callback for module in used)
    return tuple(dict.fromkeys(found))


class _UnavailableCallback:
    """Stands for the callback where Lightning is missing."""

    def __init__(self, **_settings: Any) -> None:
        user = "msmemscope.integrations.lightning.MsmemscopeCallback"
        raise MissingPackageError(user, "lightning", "pytorch-lightning")


class _Hooks:
    """The hooks, whatever package the base class is from."""

    def __init__(self, *, log_memory: bool = False, **settings: Any) -> None:
        super().__init__()
        self.run = TrainingRun(settings, logs_memory=log_memory)
        self._optimizer_steps = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002 - Lightning's signature, here and below
        """Begin to collect; the sanity check of validation is over."""
        self._optimizer_steps = trainer.global_step
        self.run.begin()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:  # noqa: ARG002
        """A batch has ended, and an optimizer step if it was the last one to be accumulated."""
        if trainer.global_step != self._optimizer_steps:
            self._optimizer_steps = trainer.global_step
            self.run.step()
            self._log_memory(trainer)

    def _log_memory(self, trainer: Any) -> None:
        if trainer.loggers and trainer.log_every_n_steps and self._optimizer_steps % trainer.log_every_n_steps == 0:
            for logger in trainer.loggers:
                # Lightning numbers the steps of its charts from 0.
                self.run.log_memory(functools.partial(logger.log_metrics, step=self._optimizer_steps - 1))

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """Stop collecting."""
        self.run.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:  # noqa: ARG002
        """Stop collecting; the exception goes its way."""
        self.run.end()

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ARG002
        """Stop collecting if nobody told that training ended."""
        self.run.end()


def _make_class(bases: tuple[type[Any], ...]) -> type[Any]:
    members = {
        "__doc__": """Collects memory events while `Trainer.fit()` trains, and marks its optimizer steps.

        Collection begins where training begins, after the sanity check of validation, and ends with it, also if
        training fails. Where collection is on already, under the command line for example, it stays on, and the steps
        are marked all the same. With gradient accumulation a step is one optimizer step; a batch in which several
        optimizers step makes one step; validation makes none.

        Args:
            log_memory: Whether the trainer's loggers get figures of memory, so that TensorBoard, MLflow and others show
                them; see `logged_memory`.
            **settings: Keywords of `msmemscope.config`: `steps="2,3"` collects these steps only, counted from 1 in
                each process. Without any, the settings in force are used.

        Raises:
            ConfigurationError: If a setting is unknown or not accepted; it is a ValueError.
            MissingPackageError: If neither lightning nor pytorch_lightning is installed; it is an ImportError.
        """,
        "__module__": __name__,  # where pickle finds it
    }
    return type("MsmemscopeCallback", (_Hooks, *bases), members)
