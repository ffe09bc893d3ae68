"""The words of the tables: which functions are hooked in a framework, and what for.

The tables stand in a file per framework. Names of modules, classes and functions are those of the published packages.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from msmemscope.capture.frameworks.versions import version_numbers

if TYPE_CHECKING:
    from msmemscope.model.labels import LabelLevel

    Label = tuple[str, LabelLevel]


class HookType(Enum):
    """The purposes of hooks of a component."""

    DECOMPOSE = "decompose"
    """Labels say what memory is for."""
    SNAPSHOT = "snapshot"
    """Snapshots before and after show what a phase adds."""
    SLEEP = "sleep"
    """Ranges say when memory is put to sleep and woken."""


class Callback(Enum):
    """The use of a function's result: labels for blocks that exist then."""

    WEIGHTS = "weights"
    """The parameters and buffers of the model that a runner has loaded."""
    KV_CACHE = "kv_cache"
    """The tensors of the cache, by layer, that a runner has allocated."""
    SAVED = "saved"
    """Tensors that a function of autograd, its `ctx` the first argument, has saved for its backward pass."""
    SAVED_BY_COMPILED = "saved by compiled code"
    """The same with the `ctx` as second argument."""
    SAVED_BY_CHECKPOINT = "saved by checkpoints"
    """Tensors that a checkpoint keeps to run a function again.

    These are the further arguments, and the tensors that its frame has. The frame is the first argument.
    """
    SHARDED_GRADIENTS = "gradients of fully_shard"
    """Gradients that the parameters of a group, the first argument, have not exchanged yet."""
    ZERO_GRADIENTS = "gradients of ZeRO"
    """Gradients that an optimizer of DeepSpeed's ZeRO, the first argument, holds."""
    ZERO_GRADIENT = "gradient of ZeRO"
    """The gradient that a parameter, the second argument, has there."""


@dataclass(frozen=True)
class Target:
    """One function of a framework."""

    modules: tuple[str, ...]
    """Where it stands; more than one if it was moved or stands where another project defines it."""
    class_name: str
    """Empty for a function of a module."""
    function: str
    labels: tuple[Label, ...] = ()
    """In force while it runs."""
    callback: Callback | None = None
    is_snapshot: bool = False
    range_name: str = ""
    """Of the mstx range that is recorded around each call; empty for none."""

    def __str__(self) -> str:
        name = f"{self.class_name}.{self.function}" if self.class_name else self.function
        return f"{self.modules[0]}.{name}"


@dataclass(frozen=True)
class HookSet:
    """The hooks in one component of a framework, for some versions."""

    framework: str
    versions: str
    """A range, see `versions`."""
    component: str
    hook_type: HookType
    targets: tuple[Target, ...]


@dataclass(frozen=True)
class Framework:
    """A framework, and how to find out which version a program uses."""

    name: str
    package: str
    """The top-level module."""
    distribution: str
    """Its name as an installed package."""
    hook_sets: tuple[HookSet, ...]
    older_version_names: tuple[tuple[str, str], ...] = ()
    """Version texts that older documents use, and the versions that they mean."""

    def numbers_of(self, version: str) -> tuple[int, ...]:
        """The numbers of a version.

        Raises:
            ValueError: If it is none.
        """
        numbers = version_numbers(version)
        for older, meant in self.older_version_names:
            if numbers == version_numbers(older):
                return version_numbers(meant)
        return numbers


def functions(
    modules: str | tuple[str, ...],
    class_name: str,
    names: str,
    labels: tuple[Label, ...] = (),
    *,
    callback: Callback | None = None,
    is_snapshot: bool = False,
) -> tuple[Target, ...]:
    """Targets of one class or module; the names stand in one text, separated by spaces."""
    places = (modules,) if isinstance(modules, str) else modules
    return tuple(Target(places, class_name, name, labels, callback, is_snapshot) for name in names.split())


def ranged_functions(modules: str | tuple[str, ...], class_name: str, names: str) -> tuple[Target, ...]:
    """Targets whose calls are recorded as ranges of the same names."""
    targets = functions(modules, class_name, names)
    return tuple(replace(target, range_name=target.function) for target in targets)
