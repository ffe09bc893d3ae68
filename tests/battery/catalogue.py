"""Every program of the battery: what it does, how it is started, and what it needs."""

from __future__ import annotations

import ast
import enum
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAMS: Final = Path(__file__).parent / "programs"
"""Sources of the programs."""


class Place(enum.Enum):
    """Where a program's memory lies."""

    CPU = "CPU"
    NPU = "virtual NPU"


BOTH: Final = (Place.CPU, Place.NPU)


@dataclass(frozen=True)
class Program:
    """One program.

    Attributes:
        family: The heading under which it stands.
        name: Its name, unique in its family.
        does: One sentence.
        command: The command line. `{built}` is the executable of `source`, `{library}` a library with an allocator,
            `{programs}` the folder of the sources, `{python}` the interpreter, `{device}` cpu or npu.
        source: A C or C++ file to build, or nothing.
        sanitizer: The sanitizer that it is built with: `address`.
        with_torch: Whether it uses torch.
        places: Where it runs.
        needs: Programs (`gdb`), libraries (`libjemalloc.so.2`), modules (`module gevent`) and rights (`root`).
        preloaded: A library of `needs` that the user preloads.
        nightly: Whether only `make test-nightly` runs it.
        differs: How it differs under the tool, or nothing.
        by_day: The command line by day, if it is a smaller one.
    """

    family: str
    name: str
    does: str
    command: tuple[str, ...]
    source: str = ""
    sanitizer: str = ""
    with_torch: bool = False
    places: tuple[Place, ...] = (Place.CPU,)
    needs: tuple[str, ...] = ()
    preloaded: str = ""
    nightly: bool = False
    differs: str = ""
    by_day: tuple[str, ...] = ()


def _ways(family: str, source: str, ways: dict[str, str], **settings: object) -> Iterator[Program]:
    """The programs of one source; its first argument chooses."""
    for way, does in ways.items():
        is_given_library = way in {"library closed at exit", "another namespace", "other preload"}
        more = ("{library}",) if is_given_library else ("10",) if way == "chain" else ()
        by_day = ("{built}", way, BY_DAY[way]) if way in BY_DAY else ()
        needs = ("root",) if way in {"changed root", "other user", "no more processes"} else ()
        places = (Place.CPU,) if is_given_library or way in CPU_ONLY else BOTH
        yield Program(
            family, way, does, ("{built}", way, *more), source, places=places, needs=needs, differs=DIFFERS.get(way, ""),
            by_day=by_day,
        )  # fmt: skip


BY_DAY: Final = {"chain": "3", "children": "6"}
"""How many processes some ways of native programs make by day."""

DIFFERS: Final = {
    "strict": (
        "strict seccomp takes the clock away from a process, and any system call ends it. A program that allocates "
        "observed memory after that is ended"
    )
}
"""Known differences of native programs."""

CPU_ONLY: Final = frozenset({"strict"})
"""Ways of native programs that the virtual NPU itself does not allow."""


def _native() -> Iterator[Program]:
    yield Program(
        "Processes", "fork storm", "13 processes, each forked by a parent in one of three ways: from its main thread, from "
        "another thread, by the system call without handlers", ("{built}", "2"), "fork_storm.c", places=BOTH, by_day=("{built}", "1"),
    )  # fmt: skip
    images = {
        "chain": "exec again and again in one process, ten times",
        "no environment": "exec with an empty environment",
        "other preload": "exec with LD_PRELOAD changed",
        "cleared": "clearenv, then fork and exec",
        "by descriptor": "fexecve of a descriptor that closes itself",
        "spawn": "posix_spawn, 20 times, every other one without environment",
        "clone": "clone with CLONE_VM and CLONE_VFORK on a stack of its own, then exec",
        "shell": "system and popen",
        "missing": "exec of a program that does not exist, and going on",
    }
    yield from _ways("Processes", "images.c", images)
    yield Program(
        "Threads", "2,000 threads", "2,000 threads that are alive together, with the smallest stacks (16 KiB)",
        ("{built}", "2000"), "many_threads.c",
    )  # fmt: skip
    coroutines = {
        "makecontext": "20 coroutines by makecontext and swapcontext, on stacks that end at unmapped memory",
        "by hand": "coroutines by assembly, whose outermost function returns to 0",
        "onto nothing": "coroutines by assembly, whose outermost function returns to where nothing is",
        "into a function": "coroutines by assembly, whose outermost function returns into another one, whose frame is nowhere",
    }
    yield from _ways("Coroutines", "coroutines.c", coroutines)
    signals = {
        "timer": "setitimer, a thousand times a second, with a handler that allocates",
        "interrupted": "a system call interrupted by a signal, once",
        "fault": "200 faults handled on an alternate stack, left by siglongjmp",
        "children": "a handler of SIGCHLD that reaps every child",
        "waiting": "all signals blocked everywhere, and one thread in sigwait",
        "cancelled": "50 threads cancelled while they allocate",
    }
    yield from _ways("Signals", "signals.c", signals)
    ends = {
        "return": "main returns; handlers at exit and static destructors allocate, in their order",
        "_exit": "_exit",
        "quick_exit": "quick_exit, with a handler",
        "abort": "abort",
        "terminate": "a C++ exception that nobody catches",
        "exceptions": "C++ exceptions through 30 frames that free, in nine threads",
        "jumps": "setjmp and longjmp out of functions that allocate",
        "exit in a thread": "exit, called by another thread",
        "main thread first": "the main thread ends before the others",
        "threads still run": "main returns while eight threads allocate",
        "terminated": "SIGTERM that nobody handles",
        "fault": "SIGSEGV that nobody handles",
        "library closed at exit": "dlclose in a handler at exit",
        "another namespace": "dlmopen: an allocator in a namespace of its own",
    }
    yield from _ways("Ends", "ends.cpp", ends)
    surroundings = {
        "removed folder": "the current folder is removed",
        "changed root": "chroot into an empty folder",
        "other user": "rights given up: setgid, setuid",
        "descriptors": "numbers of the next descriptors, and how many are open",
        "few descriptors": "RLIMIT_NOFILE of 8, all of them used",
        "little address space": "RLIMIT_AS one MiB above what is used",
        "small stack limit": "RLIMIT_STACK of 128 KiB, then exec",
        "no more processes": "RLIMIT_NPROC of 0",
        "filtered": "seccomp: no file can be opened",
        "strict": "seccomp, strict: read, write and exit only",
        "renamed": "the command line overwritten, the process renamed",
        "daemonised": "a daemon: a new session, descriptors closed, its parent gone",
    }
    yield from _ways("Surroundings", "surroundings.c", surroundings)


def _instruments() -> Iterator[Program]:
    gdb = ("gdb", "-nx", "-q", "-batch", "-ex", "set debuginfod enabled off", "-ex", "run")
    yield Program(
        "Instruments", "gdb", "run under gdb until a fault, with its backtrace of the program",
        (*gdb, "-ex", "bt 1", "--args", "{built}", "fault"), "ends.cpp", needs=("gdb",),
    )  # fmt: skip
    yield Program(
        "Instruments", "gdb", "a training run under gdb", (*gdb, "--args", "{python}", "{programs}/trains.py", "{device}"),
        with_torch=True, places=BOTH, needs=("gdb",), nightly=True,
    )  # fmt: skip
    # In the current folder: both of them remove the file that was there, and root may remove /dev/null.
    commands = {
        "coverage": ("coverage run", ("-m", "coverage", "run", "--data-file=coverage.data", "{programs}/trains.py")),
        "memray": ("memray run", ("-m", "memray", "run", "--quiet", "--force", "--output=memray.bin")),
    }
    for module, (name, words) in commands.items():
        script = () if "{programs}/trains.py" in words else ("{programs}/trains.py",)
        yield Program(
            "Instruments", name, f"a training started by {name}", ("{python}", *words, *script, "{device}"),
            with_torch=True, places=BOTH, needs=(f"module {module}",), nightly=True,
        )  # fmt: skip
    yield Program(
        "Instruments", "py-spy record", "a training started and sampled by py-spy",
        ("py-spy", "record", "--format=raw", "--output=samples.txt", "--", "{python}", "{programs}/trains.py", "{device}"),
        with_torch=True, places=BOTH, needs=("py-spy", "module torch"), nightly=True,
    )  # fmt: skip
    for library, name in (
        ("libjemalloc.so.2", "jemalloc"),
        ("libtcmalloc_minimal.so.4", "tcmalloc"),
        ("libmimalloc.so.2", "mimalloc"),
    ):
        yield Program(
            "Allocators", name, f"{name} preloaded: 200 threads", ("{built}", "200"), "many_threads.c",
            needs=(library,), preloaded=library,
        )  # fmt: skip
        yield Program(
            "Allocators", name, f"{name} preloaded: a training", ("{python}", "{programs}/trains.py", "{device}"),
            with_torch=True, places=BOTH, needs=(library,), preloaded=library, nightly=name != "jemalloc",
        )  # fmt: skip
    for source, way in (("images.c", "chain"), ("signals.c", "children"), ("ends.cpp", "exceptions")):
        yield Program(
            "Allocators", f"AddressSanitizer: {way}", f"built with AddressSanitizer: {source}, {way}",
            ("{built}", way, *(("5",) if way == "chain" else ())), source, sanitizer="address", needs=("gcc",), nightly=way == "children",
        )  # fmt: skip
    for stream, number in (("input", 0), ("output", 1), ("errors", 2)):
        closed = f'exec "$@" {number}>&-'
        yield Program(
            "Surroundings", f"closed {stream}", f"descriptor {number} is closed from the start",
            ("sh", "-c", closed, "sh", "{built}", "descriptors"), "surroundings.c", places=BOTH,
        )  # fmt: skip


NIGHTLY: Final = {"worker_of_a_fork_server", "spawned_worker"}
"""Programs with torch that import it again in every worker."""

CPU_PROGRAMS_WITH_TORCH: Final = frozenset({"fork_after_use", "forked_worker", "uncaught"})
"""Programs with torch that do not suit an NPU. In a forked child, torch_npu waits for a thread that only the parent
has. Of an uncaught exception it writes times and C++ stacks, which differ each time."""

MODULES: Final = {
    "uvloop_tasks": "module uvloop",
    "greenlets": "module greenlet",
    "gevent_tasks": "module gevent",
    "measured_coverage": "module coverage",
    "memray_inside": "module memray",
    "attached_py_spy": "py-spy",
}
"""The modules that programs with torch need beside it."""

FAMILIES: Final = {
    "concurrency": "Threads",
    "processes": "Processes",
    "coroutines": "Coroutines",
    "signals": "Signals",
    "ends": "Ends",
    "instruments": "Instruments",
}
"""Files of the programs with torch, and the headings under which they stand."""


def _with_torch() -> Iterator[Program]:
    """One program for each function of the files in programs/torch_cases; its docstring says what it does."""
    for file, family in FAMILIES.items():
        tree = ast.parse((PROGRAMS / "torch_cases" / f"{file}.py").read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                yield Program(
                    family,
                    node.name.replace("_", " ").strip(),
                    (ast.get_docstring(node) or "").rstrip("."),
                    ("with_torch.py", f"{file}.{node.name}"),
                    with_torch=True,
                    places=(Place.CPU,) if node.name in CPU_PROGRAMS_WITH_TORCH else BOTH,
                    needs=(MODULES[node.name],) if node.name in MODULES else (),
                    nightly=node.name in NIGHTLY,
                )


CATALOGUE: Final = (*_native(), *_instruments(), *_with_torch())
