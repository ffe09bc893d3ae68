"""The first moments of a Python process under the launcher.

Most Python processes never allocate a tensor. So as little as possible is imported here: the session begins when the
program imports torch, or at once where it traces function calls.
"""

from __future__ import annotations

import atexit
import os
import sys

from msmemscope.capture.import_hook import when_imported

TYPE_CHECKING = False  # typing itself is slow to import
if TYPE_CHECKING:
    from collections.abc import Mapping

    from msmemscope.capture.growing_containers import ContainerLooks

NEVER_BEGAN = "unstarted.main"
"""Fact of a Python that found no program to run; its value is the program as Python names it."""


_takes_host_samples = False


def begin(settings: Mapping[str, str]) -> None:
    """Begin the session now or with torch.

    Args:
        settings: The lines of the settings text.
    """
    from msmemscope import _native

    if not _native.is_main_interpreter():
        # It cannot import torch. Functions that it calls at its end would end the main thread too: the program is
        # ending then.
        return
    _native.note_fact("observed.python", sys.version.partition(" ")[0])
    atexit.register(_note_what_never_began)
    if settings.get("collect_mode") != "immediate":
        return  # start() begins it
    if settings["host"] != "off" and not {"alloc", "free"}.isdisjoint(settings["events"].split(",")):
        # Programs without torch have host memory, too.
        global _takes_host_samples  # noqa: PLW0603 - of the process
        _takes_host_samples = True
        _native.begin_host_samples()
        if settings["holder_time"] != "0":
            _look_at_containers(int(settings["holder_time"]))
    if "traceback" in settings.get("events", "").split(","):
        _begin_session()
        return
    # Allocations during the import of torch itself have Python stacks too; the rest waits for its end.
    if settings.get("python_stack_depth", "0") != "0":
        _native.collect_python_stacks(True)
    when_imported("torch", _begin_session, begins=_native.open_no_log_for_host_samples)


_FIRST_LOOK_NS = 200_000_000


def _look_at_containers(limit_ms: int) -> None:
    """Look what grows, as soon as samples of host memory are taken: most processes never have one."""
    from msmemscope import _native

    began = os.getpid()
    looks: list[ContainerLooks] = []

    def look() -> None:
        if not looks:
            from msmemscope.capture.growing_containers import begin_in_process

            looks.append(begin_in_process(lambda: limit_ms, is_forked=os.getpid() != began))
        looks[0].look()

    def look_at_the_end() -> None:
        _native.end_host_samples()  # before memory of our own is taken
        if looks:
            looks[0].process_ends()

    def await_first_look() -> None:
        if not looks:  # they know by themselves that they were forked
            _native.await_container_look(_FIRST_LOOK_NS, look)

    def expect_workers() -> None:
        from msmemscope.capture.worker_ends import at_end_of_workers

        at_end_of_workers(look_at_the_end)

    await_first_look()
    atexit.register(look_at_the_end)
    os.register_at_fork(after_in_child=await_first_look)
    when_imported("multiprocessing.util", expect_workers)


def leave_out_host_memory() -> None:
    """Say nothing of the host memory of this process: it is a launcher of ours, within the program that is observed."""
    if _takes_host_samples:
        from msmemscope import _native

        _native.end_host_samples()
        _native.await_container_look(-1, None)


_OF_EVERY_MAIN = frozenset(
    ("__annotations__", "__builtins__", "__doc__", "__loader__", "__name__", "__package__", "__spec__", "__cached__")
)
"""Names that a main module has before anything of it has run."""


def _note_what_never_began() -> None:
    """Note at the end that Python did not get as far as the program: there is no such file or module.

    Where it did, the name of a module (`-m`) has become a path, a file is there, or the program has left names.
    """
    named = sys.argv[0] if sys.argv else ""
    if named in {"", "-", "-c"} or not _OF_EVERY_MAIN.issuperset(vars(sys.modules["__main__"])):
        return
    if named == "-m" or not os.path.exists(named):  # noqa: PTH110 - pathlib is not loaded here
        from msmemscope import _native

        _native.note_fact(NEVER_BEGAN, named)


def _begin_session() -> None:
    """Runs in the middle of the program's own imports, which must succeed whatever happens here."""
    try:
        from msmemscope.capture.session import begin_launched

        begin_launched()
    except Exception as error:  # noqa: BLE001 - see above
        from msmemscope import _native

        _native.warn(f"operators and functions are not collected: {type(error).__name__}: {error}")
