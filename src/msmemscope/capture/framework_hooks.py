"""`init_framework_hooks` and `cleanup_framework_hooks`: hooks that the program asks for."""

from __future__ import annotations

from msmemscope.capture.frameworks.automatic import disable_automatic_hooks, disable_sleep_hooks, leave_to_program
from msmemscope.capture.frameworks.patching import patcher
from msmemscope.capture.frameworks.registry import find_hook_sets
from msmemscope.capture.frameworks.targets import HookType

_HOLDER = "program"


def init_framework_hooks(framework: str, version: str, component: str, hook_type: str) -> None:
    """Hook the functions of a framework that mark the phases of its memory.

    Call it before or after the framework is imported, in each process that runs the component; it imports nothing.
    Calling it again changes nothing. Calls for several components or types add up. The hook type decides what happens:

    - With `hook_type="decompose"` blocks get owners such as `vllm@profile` or `fsdp2@sharded_weight`. The automatic
      hooks of `analysis="decompose"` are off from then on in this process.
    - With `hook_type="snapshot"` a snapshot is taken before and after each call of the functions, named
      `<module>@<class>@<function>@Start` and `@End`.
    - With `hook_type="sleep"` the log has an mstx range around each call that puts device memory to sleep (`sleep`) or
      wakes it (`wake_up`). For known versions you get these ranges without a call.

    The functions keep their behaviour and signatures. If a module has imported one of them by name before the call
    (`from x import f`), it keeps the original. A function that is not there, or that the framework replaces later, is
    left out.

    Args:
        framework: `pytorch`, `vllm`, `vllm_ascend`, `verl` or `mindspeed_llm`.
        version: The version of the framework as its package says it, `0.11.0` or `2.9.0+cpu`; a leading `v` is allowed.
        component: A part of the framework: `fsdp1` or `fsdp2`, `worker`, `TaskRunner`, `training`.
        hook_type: `decompose`, `snapshot` or `sleep`.

    Raises:
        ConfigurationError: If one of these is not known; the message lists what is. It is a ValueError.

    Example:
        >>> msmemscope.init_framework_hooks("vllm_ascend", "0.11.0", "worker", "decompose")
    """
    hook_sets = find_hook_sets(framework, version, component, hook_type)
    if hook_type == HookType.DECOMPOSE.value:
        leave_to_program()
    patcher.install(hook_sets, _HOLDER, _take_snapshot)


def cleanup_framework_hooks() -> None:
    """Give every hooked function back, those of `init_framework_hooks` and the automatic ones.

    A function that somebody else has wrapped meanwhile keeps our wrapper inside, which does nothing any more. Calling it
    without hooks does nothing. The automatic ones come back with the next `start()`.
    """
    disable_automatic_hooks()
    disable_sleep_hooks()
    patcher.release_all()


def _take_snapshot(name: str) -> None:
    from msmemscope.capture.snapshot import take_snapshot  # loaded by the first call that wants one

    take_snapshot(None, name=name)
