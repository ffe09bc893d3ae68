"""Looking things up in the tables of all frameworks. A new framework is a file with a table, and a name here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msmemscope.capture.frameworks.deepspeed import DEEPSPEED
from msmemscope.capture.frameworks.mindspeed_llm import MINDSPEED_LLM
from msmemscope.capture.frameworks.pytorch import PYTORCH
from msmemscope.capture.frameworks.verl import VERL
from msmemscope.capture.frameworks.versions import fitting
from msmemscope.capture.frameworks.vllm import VLLM
from msmemscope.capture.frameworks.vllm_ascend import VLLM_ASCEND
from msmemscope.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from msmemscope.capture.frameworks.targets import Framework, HookSet, HookType


def known_frameworks() -> tuple[Framework, ...]:
    """All frameworks that there are tables of."""
    return (PYTORCH, DEEPSPEED, VLLM, VLLM_ASCEND, VERL, MINDSPEED_LLM)


def find_hook_sets(framework: str, version: str, component: str, hook_type: str) -> tuple[HookSet, ...]:
    """Return the hook sets that the tables have for a component.

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


def find_automatic_sets(framework: Framework, version: str, hook_type: HookType) -> tuple[HookSet, ...]:
    """Return the hook sets of all components of a framework, for one version and type; none for unknown versions."""
    sets = [each for each in framework.hook_sets if each.hook_type is hook_type]
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
