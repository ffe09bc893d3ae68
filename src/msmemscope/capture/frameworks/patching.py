"""Putting hooks into frameworks as the program imports them, and taking them out again.

Nothing is imported for it. Modules that the program has imported are patched at once, others when they are imported. If
another module has imported a function by name before (`from x import f`), it keeps the unwrapped one. If it imports the
function by name afterwards, it keeps our wrapper, also when the hooks are gone. The wrapper rests then.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from msmemscope import _native
from msmemscope.capture.frameworks.compilation import RULES, stay_out_of_compilation
from msmemscope.capture.frameworks.places import NotAFunctionError, Place
from msmemscope.capture.import_hook import whenever_imported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from msmemscope.capture.frameworks.targets import HookSet, Target
    from msmemscope.capture.import_hook import EndWatch

_SOURCE = "framework_hooks"


class Patcher:
    """The hooks of this process.

    Each holder (the program's own calls, the automatic hooks) claims targets and releases them. A function is wrapped
    once, however many claim it.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._claims: dict[str, dict[tuple[str, Target], HookSet]] = {}
        self._snapshots: dict[str, Callable[[str], None]] = {}
        self._watched: dict[str, EndWatch] = {}
        # The owner is kept alive by its place, so that its identity stays its own.
        self._places: dict[tuple[int, str], Place] = {}
        self._placed: set[Target] = set()
        self._absent: dict[str, None] = {}
        self._reported: set[str] = set()

    def install(
        self, hook_sets: Iterable[HookSet], holder: str, take_snapshot: Callable[[str], None] | None = None
    ) -> None:
        """Hook all targets of some tables for a holder; those that it has already are left as they are.

        Args:
            hook_sets: The functions to hook.
            holder: Who wants it.
            take_snapshot: Takes a snapshot of the given name. A holder whose targets want snapshots gives it.
        """
        with self._lock:
            if take_snapshot is not None:
                self._snapshots[holder] = take_snapshot
            claims = self._claims.setdefault(holder, {})
            for hook_set in hook_sets:
                for target in hook_set.targets:
                    for module in target.modules:
                        claims.setdefault((module, target), hook_set)
            if claims and RULES not in self._watched:
                self._watched[RULES] = whenever_imported(RULES, stay_out_of_compilation)
                stay_out_of_compilation()
            for module in dict.fromkeys(module for module, _ in claims):
                if module not in self._watched:
                    self._watched[module] = whenever_imported(
                        module, _bound(self._patch, module), missing=_bound(self._note_missing, module)
                    )
                if module in sys.modules:
                    self._patch(module)

    def release(self, holder: str) -> None:
        """Give back what only this holder has claimed."""
        with self._lock:
            self._claims.pop(holder, None)
            self._snapshots.pop(holder, None)
            wanted = {module for claims in self._claims.values() for module, _ in claims}
            if wanted:
                wanted.add(RULES)
            for module in [module for module in self._watched if module not in wanted]:
                self._watched.pop(module)()
            for key, place in list(self._places.items()):
                try:
                    is_restored = place.release(holder)
                except Exception as error:  # noqa: BLE001 - the others are still to be given back
                    place.complain("giving back", error)
                    continue
                if is_restored:
                    del self._places[key]

    def release_all(self) -> None:
        """Give everything back."""
        with self._lock:
            for holder in list(self._claims):
                self.release(holder)

    def _patch(self, module_name: str) -> None:
        """Patch the claimed functions of a module. Never raises: it may run in the middle of the program's imports."""
        with self._lock:
            for holder, claims in self._claims.items():
                for (module, target), hook_set in claims.items():
                    if module == module_name:
                        self._patch_target(holder, module, target, hook_set)

    def _patch_target(self, holder: str, module: str, target: Target, hook_set: HookSet) -> None:
        try:
            owner = _owner_of(module, target)
            key = (id(owner), target.function)
            if key not in self._places:
                self._places[key] = Place(owner, target.function)
            self._places[key].claim(holder, target, module, self._snapshots.get(holder))
        except NotAFunctionError as problem:
            if target not in self._placed:
                self._note_absent(_text_of(module, target), str(problem))
        except Exception as error:  # noqa: BLE001 - the program goes on, whatever this framework is like
            self._note_absent(_text_of(module, target), f"{type(error).__name__}: {error}")
        else:
            self._placed.add(target)
            self._note_observed(hook_set)

    def _note_missing(self, module: str) -> None:
        with self._lock:
            targets = [target for claims in self._claims.values() for name, target in claims if name == module]
            if any(len(target.modules) == 1 for target in targets):
                self._note_absent(module, "")

    def _note_absent(self, what: str, reason: str) -> None:
        if what in self._absent:
            return
        self._absent[what] = None
        count = len(self._absent)
        text = f"{what}: {reason or 'does not exist'}"
        _native.note_fact(f"unobserved.{_SOURCE}", f"{text} ({count} in all)" if count > 1 else text)

    def _note_observed(self, hook_set: HookSet) -> None:
        text = f"{hook_set.framework} {hook_set.component} {hook_set.hook_type.value}"
        if text not in self._reported:
            self._reported.add(text)
            _native.note_fact(f"observed.{_SOURCE}", ", ".join(sorted(self._reported)))


def _bound(method: Callable[[str], None], module: str) -> Callable[[], None]:
    return lambda: method(module)


def _owner_of(module_name: str, target: Target) -> Any:
    """The module or class that a target stands in.

    Raises:
        NotAFunctionError: If there is no such class.
    """
    module = sys.modules.get(module_name)
    if module is None:
        raise NotAFunctionError
    if not target.class_name:
        return module
    owner = vars(module).get(target.class_name)
    if owner is None:
        raise NotAFunctionError
    if not isinstance(owner, type):
        text = f"{target.class_name} is of type {type(owner).__name__}, no class"
        raise NotAFunctionError(text)
    return owner


def _text_of(module: str, target: Target) -> str:
    return ".".join(filter(None, (module, target.class_name, target.function)))


patcher = Patcher()
