"""The kernels of compute=cpu: compiled once for each torch, kept in a cache.

They are C++ on libtorch, whose interface changes with every version: a library that is built elsewhere would not fit.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import VirtualNpuError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .installation import Package

SOURCES = Path(__file__).parent / "kernels"
FLAGS = ("-std=c++20", "-O1", "-g0", "-fPIC", "-fvisibility=hidden", "-w")
# MindSpore has no torch in its process: the kernels bring it, from where they were compiled against it.
LINKED_TO = ("-ltorch_cpu", "-lc10")
MOST_PARTS = 4  # each part reads torch's headers again, so more parts pay only while there are idle cores
SHOWN_LINES = 20  # of the compiler's complaints


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Return where compiled kernels are kept: ``VNPU_CACHE``, or a folder in the user's cache."""
    if environment.get("VNPU_CACHE"):
        return Path(environment["VNPU_CACHE"])
    base = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "virtual_npu"


def find_compiler(environment: Mapping[str, str]) -> list[str]:
    """Return the command of a C++ compiler.

    Raises:
        VirtualNpuError: If there is none.
    """
    for command in filter(None, (environment.get("CXX"), "c++", "g++", "clang++")):
        words = shlex.split(command)
        if words and shutil.which(words[0], path=environment.get("PATH")):
            return words
    message = (
        "no C++ compiler found ($CXX, c++, g++, clang++); compute=cpu compiles its kernels on first use\n"
        "hint: on Debian and Ubuntu: apt-get install g++; or use compute=none, which needs no compiler"
    )
    raise VirtualNpuError(message)


def source_files() -> list[Path]:
    """Return the sources of the kernels, headers not included."""
    return sorted(SOURCES.glob("*.cpp"))


def library_path(torch: Package, compiler: list[str], cache: Path) -> Path:
    """Return where the library for this torch, these sources and this compiler belongs; it need not exist."""
    digest = hashlib.sha256()
    version = subprocess.run([*compiler, "--version"], check=False, capture_output=True, text=True).stdout
    digest.update(repr((torch.version, str(torch.folder), compiler, version, FLAGS, LINKED_TO, "rpath")).encode())
    for file in sorted(SOURCES.iterdir()):
        if file.suffix in {".cpp", ".h"}:
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return cache / f"kernels-torch-{torch.version}-{digest.hexdigest()[:16]}.so"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock between processes: of many that start at once, one compiles and the others wait for it."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def shown(text: str) -> Iterator[None]:
    """Show that something takes time: a moving line on a terminal, nothing in a pipe."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield


def ensure_kernels(torch: Package, environment: Mapping[str, str]) -> Path:
    """Return the library of kernels for this torch, compiled now if it is not there yet.

    Raises:
        VirtualNpuError: If there is no compiler, no place to write to, or if the compilation fails.
    """
    compiler = find_compiler(environment)
    cache = cache_folder(environment)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        library = library_path(torch, compiler, cache)
        if library.exists():
            return library
        with locked(library.with_suffix(".lock")):
            if not library.exists():
                with shown(
                    f"vnpu: compiling the CPU kernels for torch {torch.version}, once (half a minute on two cores)"
                ):
                    compile_kernels(torch, compiler, library, environment)
    except OSError as error:
        message = (
            f"the compiled kernels cannot be kept in {cache}: {error.strerror or error}\n"
            "hint: name another folder with VNPU_CACHE"
        )
        raise VirtualNpuError(message) from error
    return library


def split_sources(files: list[Path], count: int) -> list[list[Path]]:
    """Split files into groups of about the same size."""
    groups: list[list[Path]] = [[] for _ in range(min(count, len(files)))]
    sizes = [0] * len(groups)
    for file in sorted(files, key=lambda file: -file.stat().st_size):
        smallest = sizes.index(min(sizes))
        groups[smallest].append(file)
        sizes[smallest] += file.stat().st_size
    return groups


def compile_kernels(torch: Package, compiler: list[str], library: Path, environment: Mapping[str, str]) -> None:
    """Compile all kernels into one library. Each group of files is one translation unit: the headers are most of it."""
    include = torch.folder / "include"
    parts = min(os.cpu_count() or 1, MOST_PARTS)
    with tempfile.TemporaryDirectory(prefix="virtual_npu_") as work:
        running = []
        for number, group in enumerate(split_sources(source_files(), parts)):
            unit = Path(work) / f"part{number}.cpp"
            unit.write_text("".join(f'#include "{file}"\n' for file in group), encoding="utf-8")
            command = [
                *compiler, *FLAGS, f"-I{SOURCES}", "-isystem", str(include),
                "-isystem", str(include / "torch" / "csrc" / "api" / "include"), "-c", str(unit), "-o", f"{unit}.o",
            ]  # fmt: skip
            running.append((command, start(command, environment)))
        for command, process in running:
            finish(command, process)
        # Beside its place, then moved: nobody ever sees half a library.
        written = library.with_name(f"{library.name}.{os.getpid()}")
        link = [
            *compiler, "-shared", "-o", str(written), *(f"{command[-1]}" for command, _ in running),
            f"-L{torch.folder / 'lib'}", f"-Wl,-rpath,{torch.folder / 'lib'}", *LINKED_TO,
        ]  # fmt: skip
        finish(link, start(link, environment))
        written.replace(library)


def start(command: list[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start a compiler. Its output is kept for the case that it fails."""
    return subprocess.Popen(
        command,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


def finish(command: list[str], process: subprocess.Popen[str]) -> None:
    """Wait for a compiler.

    Raises:
        VirtualNpuError: If it failed, with the first lines of what it said.
    """
    output, _ = process.communicate()
    if process.returncode != 0:
        lines = "\n".join(output.splitlines()[:SHOWN_LINES])
        message = (
            f"the CPU kernels could not be compiled: {command[0]} ended with status {process.returncode}\n{lines}\n"
            "hint: a compiler for C++20 is needed (GCC 11 or newer); another one can be named with CXX; "
            "compute=none needs none"
        )
        raise VirtualNpuError(message)


class _Description(ctypes.Structure):
    _fields_ = (("function", ctypes.c_char_p), ("source", ctypes.c_char_p), ("plan", ctypes.c_void_p))


class _Table(ctypes.Structure):
    _fields_ = (
        ("abi_version", ctypes.c_uint32),
        ("count", ctypes.c_uint32),
        ("kernels", ctypes.POINTER(_Description)),
    )


def implemented_functions(library: Path, torch: Package) -> dict[str, str]:
    """Return the aclnn functions that a compiled library has kernels for, each with the name of its source file."""
    for name in ("libc10.so", "libtorch_cpu.so"):
        ctypes.CDLL(str(torch.folder / "lib" / name), mode=ctypes.RTLD_GLOBAL)
    entry = ctypes.CDLL(str(library)).virtual_npu_kernels
    entry.restype = ctypes.POINTER(_Table)
    entry.argtypes = (ctypes.c_void_p,)
    table = entry(None).contents
    kernels = (table.kernels[index] for index in range(table.count))
    return {kernel.function.decode(): Path(kernel.source.decode()).stem for kernel in kernels}
