"""Steps of a program that marks none: they end where its optimizer steps, else where its outermost module has run.

They are recorded as implied steps. If the program marks steps itself, its marks count instead, and the native core then
wants no more implied ones.

With several optimizers, the first that stepped ends a step: when it steps again, a step is over, whatever the others
did in between. It is known by its first parameter. So a wrapper around it, or a new one for the same model, is the same
optimizer. If another one steps several times and the first does not, that one takes its place. The same holds for
modules; those of a class of the program count as one.
"""

from __future__ import annotations

import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

from msmemscope import _native
from msmemscope.capture.import_hook import when_imported

if TYPE_CHECKING:
    from collections.abc import Callable

_TAKES_OVER_AFTER = 3
"""Times in a row that another one must run before it counts instead of the first."""
_MOST_OPEN = 64


class Leader:
    """The optimizer or module whose turns are counted, among several that take turns."""

    def __init__(self) -> None:
        self._leader: tuple[int, Callable[[], Any]] | None = None
        self._other: int | None = None
        self._times = 0

    def is_turn(self, one: Any, key: Any) -> bool:
        """Whether a round is over, now that this one has run.

        Args:
            one: Who has run. When it is gone, its turn passes to the next.
            key: Its identity, which lives as long. It gets no weak reference: torch swaps no tensor that has one.
        """
        if self._leader is None or self._leader[0] == id(key) or self._leader[1]() is None:
            self._lead(one, key)
            return True
        if self._other != id(key):
            self._other, self._times = id(key), 0
        self._times += 1
        if self._times < _TAKES_OVER_AFTER:
            return False
        self._lead(one, key)
        return True

    def _lead(self, one: Any, key: Any) -> None:
        self._leader, self._other, self._times = (id(key), weakref.ref(one)), None, 0


class _OfThread(threading.local):
    """The optimizers and modules that run in this thread."""

    def __init__(self) -> None:
        self.optimizers: list[Any] = []
        self.modules = 0


class ImpliedSteps:
    """The watch for the ends of steps, while it is on.

    Args:
        device: The device that has the events of steps.
        ended: Called after each step that was recorded. If marks end the steps, also after those of an optimizer.
    """

    def __init__(self, device: Callable[[], int], ended: Callable[[], None]) -> None:
        self._device = device
        self._ended = ended
        self._is_wanted = False
        self._is_waiting = False
        self._of_thread = _OfThread()
        self._optimizers = Leader()
        self._modules = Leader()
        self._optimizer_hooks: list[Any] = []
        self._module_hooks: list[Any] = []

    def enable_with_torch(self) -> None:
        """Begin now if the program has torch already, else as soon as it imports it."""
        self._is_wanted = True
        if hasattr(sys.modules.get("torch"), "__version__"):
            self._enable()
        elif not self._is_waiting:
            self._is_waiting = True
            when_imported("torch", self._enable)

    def disable(self) -> None:
        """Look no more."""
        self._is_wanted = False
        self._remove(self._optimizer_hooks)
        self._remove(self._module_hooks)

    def _enable(self) -> None:
        """Never raises: it may run in the middle of the program's imports."""
        self._is_waiting = False
        if not self._is_wanted or self._optimizer_hooks:
            return
        try:
            from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
            from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

            is_compiling = sys.modules["torch"].compiler.is_compiling
            begins, ends = self._watched_modules(is_compiling)
            self._optimizer_hooks += (
                register_optimizer_step_pre_hook(self._optimizer_begins),
                register_optimizer_step_post_hook(self._optimizer_ends),
            )
            self._module_hooks += (
                register_module_forward_pre_hook(begins),
                register_module_forward_hook(ends, always_call=True),
            )
            _native.hide_code((begins.__code__, ends.__code__))
        except Exception as error:  # noqa: BLE001 - the program goes on, whatever this torch is like
            _native.note_fact("unobserved.implied_steps", f"{type(error).__name__}: {error}")

    @staticmethod
    def _remove(hooks: list[Any]) -> None:
        while hooks:
            hooks.pop().remove()

    def _optimizer_begins(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        running = self._of_thread.optimizers
        # One that is begun again has failed before its end.
        if optimizer in running or len(running) >= _MOST_OPEN:
            running.clear()
        running.append(optimizer)

    def _optimizer_ends(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        running = self._of_thread.optimizers
        is_outermost = not running or running[0] is optimizer
        if optimizer in running:
            del running[running.index(optimizer) :]
        try:
            if is_outermost and self._optimizers.is_turn(optimizer, optimizer.param_groups[0]["params"][0]):
                self._end_step(is_optimizer=True)
        except Exception as error:  # noqa: BLE001 - the step of the program was done, and must be seen as done
            self._remove(self._optimizer_hooks)
            _native.note_fact("unobserved.implied_steps", f"{type(error).__name__}: {error}")

    def _watched_modules(self, is_compiling: Callable[[], bool]) -> tuple[Any, Any]:
        """The functions that run before and after each call of a module; torch.compile takes both for nothing."""
        of_thread = self._of_thread

        def begins(module: Any, _inputs: Any) -> None:  # noqa: ARG001
            if is_compiling():
                return
            if of_thread.modules == 0 and _has_optimizer():
                # Its steps are those that count, and from now on calls of modules cost what they did.
                self._remove(self._module_hooks)
                return
            of_thread.modules += 1

        def ends(module: Any, _inputs: Any, _output: Any) -> None:
            if is_compiling():
                return
            of_thread.modules = max(of_thread.modules - 1, 0)
            if of_thread.modules == 0 and self._modules.is_turn(module, _known_by(module)):
                self._end_step(is_optimizer=False)

        return begins, ends

    def _end_step(self, *, is_optimizer: bool) -> None:
        is_recorded = _native.imply_step(is_optimizer, self._device())
        # Marks are made outside Python: that an optimizer has stepped is what Python can know of their steps.
        if not is_recorded and not (is_optimizer and _native.steps_are_ranges()):
            self._remove(self._optimizer_hooks if is_optimizer else self._module_hooks)
        elif self._is_wanted:
            self._ended()


def _known_by(module: Any) -> Any:
    """A model that is made anew takes the turn of the one before: the program's own classes count, not their objects."""
    kind = type(module)
    # A class can have anything as its module, and nothing may be raised into the program from here.
    return module if str(kind.__module__).startswith("torch.") else kind


def _has_optimizer() -> bool:
    """Whether the program has made an optimizer: torch marks the class of each that is made."""
    optimizer = sys.modules["torch"].optim.Optimizer
    kinds = [optimizer]
    while kinds:
        kind = kinds.pop()
        if hasattr(vars(kind).get("step"), "hooked"):
            return True
        kinds.extend(kind.__subclasses__())
    return False
