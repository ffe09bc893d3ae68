"""Which functions of which framework are hooked, and what for: the words of the tables, and looking things up in them.

The tables stand in a file per framework. Names of modules, classes and functions are those of the published packages.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from msmemscope.capture.frameworks.versions import fitting, version_numbers
from msmemscope.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from msmemscope.model.labels import LabelLevel

    Label = tuple[str, LabelLevel]


class HookType(Enum):
    """What hooks of a component are for."""

    DECOMPOSE = "decompose"
    """Labels say what memory is for."""
    SNAPSHOT = "snapshot"
    """Snapshots before and after show what a phase adds."""


class Callback(Enum):
    """What is done with the result of a function: labels for blocks that exist then."""

    WEIGHTS = "weights"
    """The parameters and buffers of the model that a runner has loaded."""
    KV_CACHE = "kv_cache"
    """The tensors of the cache, by layer, that a runner has allocated."""


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

    def __str__(self) -> str:
        name = f"{self.class_name}.{self.function}" if self.class_name else self.function
        return f"{self.modules[0]}.{name}"


@dataclass(frozen=True)
class HookSet:
    """What is hooked in one component of a framework, for some versions."""

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


def known_frameworks() -> tuple[Framework, ...]:
    """All frameworks that there are tables of."""
    from msmemscope.capture.frameworks.mindspeed_llm import MINDSPEED_LLM
    from msmemscope.capture.frameworks.pytorch import PYTORCH
    from msmemscope.capture.frameworks.verl import VERL
    from msmemscope.capture.frameworks.vllm_ascend import VLLM_ASCEND

    return (PYTORCH, VLLM_ASCEND, VERL, MINDSPEED_LLM)


def find_hook_sets(framework: str, version: str, component: str, hook_type: str) -> tuple[HookSet, ...]:
    """What the tables have for a component.

    Raises:
        ConfigurationError: If one of the words is not known; it says what is.
    """
    known = {each.name: each for each in known_frameworks()}
    found = known.get(str(framework))
    if found is None:
        raise _not_known(option="framework", value=framework, known=known)
    sets = [each for each in found.hook_sets if each.component == component]
    if not sets:
        components = (each.component for each in found.hook_sets)
        raise _not_known(option="component", of=framework, value=component, known=components)
    of_type = [each for each in sets if each.hook_type.value == hook_type]
    if not of_type:
        types = (each.hook_type.value for each in sets)
        raise _not_known(option="hook_type", of=f"{framework} {component}", value=hook_type, known=types)
    try:
        ranges = fitting(found.numbers_of(version), (each.versions for each in of_type))
    except (ValueError, AttributeError):
        ranges = ()
    if not ranges:
        older = (name for name, _ in found.older_version_names)
        raise _not_known(
            option="version",
            of=f"{framework} {component}",
            value=version,
            known=(*(each.versions for each in of_type), *older),
            hint="a version in which the functions have the same names may be given instead of the installed one",
        )
    return tuple(each for each in of_type if each.versions in ranges)


def find_decompose_sets(framework: Framework, version: str) -> tuple[HookSet, ...]:
    """What labels the memory of a framework in a version, of all its components; nothing for unknown versions."""
    sets = [each for each in framework.hook_sets if each.hook_type is HookType.DECOMPOSE]
    numbers = framework.numbers_of(version)
    found: list[HookSet] = []
    for component in dict.fromkeys(each.component for each in sets):
        of_component = [each for each in sets if each.component == component]
        ranges = fitting(numbers, (each.versions for each in of_component))
        found.extend(each for each in of_component if each.versions in ranges)
    return tuple(found)


def _not_known(
    *, option: str, value: object, known: Iterable[str], of: str = "", hint: str | None = None
) -> ConfigurationError:
    return ConfigurationError(
        f"not known for {of}" if of else "not known",
        option=option,
        value=value if isinstance(value, str) else repr(value),
        accepted=", ".join(dict.fromkeys(known)),
        hint=hint,
    )
