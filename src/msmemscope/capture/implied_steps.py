"""Steps of a program that marks none: they end where its optimizer steps, else where its outermost module has run.

They are recorded as implied steps. If the program marks steps itself, its marks count instead, and the native core then
wants no more implied ones.

With several optimizers, the first that stepped ends a step: when it steps again, a step is over, whatever the others
did in between. It is known by its first parameter. So a wrapper around it, or a new one for the same model, is the same
optimizer. If another one steps several times and the first does not, that one takes its place. One that was never seen
does so at once: a program that tries many settings makes a new one for each. In the first round all are new: behind a
single turn of the first, the other one takes its place without ending a step. The same holds for modules; those of a
class of the program count as one.
"""

from __future__ import annotations

import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

from msmemscope import _native
from msmemscope.capture.import_hook import when_imported
from msmemscope.capture.outermost_modules import OutermostModules

if TYPE_CHECKING:
    from collections.abc import Callable

_TAKES_OVER_AFTER = 3
"""Times in a row that another one must run before it counts instead of the first."""
_MOST_OPEN = 64
_MOST_SEEN = 256
"""Optimizers or modules that are remembered. Whoever has more has others that are gone, too."""
_ASKED_EACH_TIME = 64
"""So many calls of outermost modules each ask for an optimizer first. Later only one in as many asks: it takes 10 us,
and if there is one after all, its first step ends the watch."""


class Leader:
    """The optimizer or module whose turns are counted, among several that take turns."""

    def __init__(self) -> None:
        self._leader: tuple[int, Callable[[], Any]] | None = None
        self._other: int | None = None
        self._times = 0
        self._turns = 0
        self._seen: dict[int, Callable[[], Any]] = {}

    def is_turn(self, one: Any, key: Any) -> bool:
        """Whether a round is over, now that this one has run.

        Args:
            one: Who has run. When it is gone, its turn passes to the next.
            key: Its identity, which lives as long. It gets no weak reference: torch swaps no tensor that has one.
        """
        is_new = self._is_new(one, key)
        if self._leader is None or self._leader[0] == id(key) or self._leader[1]() is None:
            self._lead(one, key)
            self._turns += 1
            return True
        if is_new:
            is_over = self._turns != 1
            self._lead(one, key)
            self._turns = int(is_over)
            return is_over
        if self._other != id(key):
            self._other, self._times = id(key), 0
        self._times += 1
        if self._times < _TAKES_OVER_AFTER:
            return False
        self._lead(one, key)
        self._turns = 1
        return True

    def _is_new(self, one: Any, key: Any) -> bool:
        seen = self._seen.get(id(key))
        if seen is not None and seen() is not None:
            return False
        if len(self._seen) >= _MOST_SEEN:
            self._seen = {number: seen for number, seen in list(self._seen.items()) if seen() is not None}
            if len(self._seen) >= _MOST_SEEN:
                return False
        self._seen[id(key)] = weakref.ref(one)
        return True

    def _lead(self, one: Any, key: Any) -> None:
        self._leader, self._other, self._times = (id(key), weakref.ref(one)), None, 0


class _OfThread(threading.local):
    """The optimizers that run in this thread."""

    def __init__(self) -> None:
        self.optimizers: list[Any] = []


class ImpliedSteps:
    """The watch for the ends of steps, while it is on.

    Args:
        device: The device that has the events of steps.
        ended: Called after each step that was recorded. If marks end the steps, also after those of an optimizer. Not
            after one that ended with an error: its functions still have their variables, and the error has them too.
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
        self._outermost = OutermostModules(self._counts_modules, self._module_ends)
        self._module_calls = 0

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
        self._remove_optimizer_hooks()
        self._outermost.end()

    def _enable(self) -> None:
        """Never raises: it may run in the middle of the program's imports."""
        self._is_waiting = False
        if not self._is_wanted or self._optimizer_hooks:
            return
        try:
            from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

            self._optimizer_hooks += (
                register_optimizer_step_pre_hook(self._optimizer_begins),
                register_optimizer_step_post_hook(self._optimizer_ends),
            )
            self._outermost.begin()
        except Exception as error:  # noqa: BLE001 - the program goes on, whatever this torch is like
            _native.note_fact("unobserved.implied_steps", f"{type(error).__name__}: {error}")

    def _remove_optimizer_hooks(self) -> None:
        while self._optimizer_hooks:
            self._optimizer_hooks.pop().remove()

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
            self._remove_optimizer_hooks()
            _native.note_fact("unobserved.implied_steps", f"{type(error).__name__}: {error}")

    def _counts_modules(self) -> bool:
        """Whether calls of modules end the steps, as far as can be known before one."""
        self._module_calls += 1
        if self._module_calls > _ASKED_EACH_TIME and self._module_calls % _ASKED_EACH_TIME:
            return True
        return not _has_optimizer()

    def _module_ends(self, module: Any, has_raised: bool) -> None:  # noqa: FBT001 - called by position, each step
        if self._modules.is_turn(module, _known_by(module)):
            self._end_step(is_optimizer=False, has_raised=has_raised)

    def _end_step(self, *, is_optimizer: bool, has_raised: bool = False) -> None:
        is_recorded = _native.imply_step(is_optimizer, self._device())
        # Marks are made outside Python: that an optimizer has stepped is what Python can know of their steps.
        if not is_recorded and not (is_optimizer and _native.steps_are_ranges()):
            if is_optimizer:
                self._remove_optimizer_hooks()
            else:
                self._outermost.end()
        elif self._is_wanted and not has_raised:
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
