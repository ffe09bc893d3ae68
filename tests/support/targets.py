"""Builds the target programs of tests/target_programs, each once per content of its sources."""

from __future__ import annotations

import enum
import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from msmemscope.configuration import CANN_VARIABLES

SOURCES = Path(__file__).parents[1] / "target_programs"
FLAGS = ("-Wall", "-Wextra", "-Werror", "-g", "-O1", "-pthread")


class Binding(enum.Enum):
    """How the stand-in for libc10 reaches the allocator: each is another kind of entry for the observer to patch."""

    LAZY = ("-Wl,-z,lazy",)
    """Entries of the PLT, filled at the first call."""
    FULL_RELRO = ("-Wl,-z,now", "-Wl,-z,relro")
    """Entries filled at load time, in memory that is read-only afterwards."""
    NO_PLT = ("-fno-plt",)
    """No PLT: indirect calls through the global offset table."""


class Linking(enum.Enum):
    """The ways to link a program."""

    AGAINST_LIBC10 = enum.auto()
    """libc10.so, found by RUNPATH, is loaded with the program."""
    RUNPATH_ONLY = enum.auto()
    """The program opens libc10.so itself; its RUNPATH says where."""
    STATIC = enum.auto()
    """No dynamic loader."""


LINKING = {
    "dlopen_late": Linking.RUNPATH_ONLY,
    "dlclose": Linking.RUNPATH_ONLY,
    "statically_linked": Linking.STATIC,
}
"""Programs that are not simply linked against libc10.so."""

EXPORTS_ALLOCATOR = frozenset({"signal_handler"})
"""Programs that bring their own posix_memalign and free for the whole process."""


@dataclass(frozen=True)
class Builder:
    """Compiles into a folder that is kept between test runs and shared by parallel workers."""

    cache: Path

    def library(self, binding: Binding = Binding.LAZY) -> Path:
        """Build the stand-in for libc10 and return its path, which ends in `libc10.so`."""
        command = ("g++", "-std=c++17", *FLAGS, "-fPIC", "-shared", "-Wl,-soname,libc10.so", *binding.value)
        return self._compile(command, SOURCES / "fake_libc10.cpp", "libc10.so")

    def program(self, name: str, binding: Binding = Binding.LAZY) -> Path:
        """Build a C or C++ target program.

        Args:
            name: The file name of the source without its suffix.
            binding: How its libc10 reaches the allocator.

        Returns:
            The executable.
        """
        source = next(path for path in (SOURCES / f"{name}.c", SOURCES / f"{name}.cpp") if path.exists())
        command = ("g++", "-std=c++17", *FLAGS) if source.suffix == ".cpp" else ("gcc", "-std=gnu11", *FLAGS)
        linking = LINKING.get(name, Linking.AGAINST_LIBC10)
        after: tuple[str, ...] = ("-ldl",)
        if linking is Linking.STATIC:
            after = ("-static",)
        else:
            folder = self.library(binding).parent
            after = (f"-Wl,-rpath,{folder}", *after)
            if linking is Linking.AGAINST_LIBC10:
                after = (f"-L{folder}", "-l:libc10.so", *after)
        if name in EXPORTS_ALLOCATOR:
            after = ("-rdynamic", *after)
        return self._compile(command, source, name, after)

    def part(self, source: str, name: str, *options: str | Path) -> Path:
        """Build one part of a program of several: a library, unless an option says otherwise.

        Args:
            source: A path below the folder of target programs, or a whole path.
            name: The name of the file.
            options: Options of the compiler and the linker. They have libraries at the end.
        """
        kind = () if {"-pie", "-no-pie"} & {*options} else ("-shared", "-fPIC")
        compiler = ("g++", "-std=c++17") if source.endswith(".cpp") else ("gcc", "-std=gnu11")
        return self._compile((*compiler, *FLAGS, *kind), SOURCES / source, name, tuple(map(str, options)))

    def _compile(self, command: tuple[str, ...], source: Path, name: str, after: tuple[str, ...] = ()) -> Path:
        digest = hashlib.sha256(repr((command, after, name)).encode())
        digest.update(source.read_bytes())
        digest.update((SOURCES / "target.h").read_bytes())
        for path in map(Path, after):
            if path.suffix in {".cpp", ".h"}:  # of several sources, and headers that they name
                digest.update(path.read_bytes())
        folder = self.cache / digest.hexdigest()[:20]
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=self.cache) as scratch:
                made = Path(scratch) / "made"
                made.mkdir()
                run = subprocess.run(
                    [*command, str(source), "-o", str(made / name), *after], capture_output=True, text=True, check=False
                )
                assert run.returncode == 0, f"{source.name} does not compile:\n{run.stderr}"
                try:
                    made.rename(folder)
                except OSError:  # another worker was faster
                    assert folder.exists()
        return folder / name


def compilers_missing() -> str:
    """Return what is missing to build target programs, or an empty text."""
    missing = [name for name in ("gcc", "g++") if shutil.which(name) is None]
    return f"no {' and no '.join(missing)} on PATH" if missing else ""


def parse_report(stdout: str) -> list[dict[str, str]]:
    """Parse the lines of key=value pairs that target programs print; other lines are left out."""
    reports = []
    for line in stdout.splitlines():
        words = line.split()
        if words and all("=" in word for word in words):
            reports.append(dict(word.split("=", 1) for word in words))
    return reports


def environment(**changes: str) -> dict[str, str]:
    """Return this process's environment with changes, without what a surrounding run of the tool left, and without CANN."""
    left_out = ("MSMEMSCOPE", "LD_PRELOAD", *CANN_VARIABLES)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(left_out)}
    return kept | changes
