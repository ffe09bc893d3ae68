"""The checks behind `doctor`: they say what can be observed on this machine, and what is missing."""

from __future__ import annotations

import ctypes
import dataclasses
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from elftools.common.exceptions import ELFError

from msmemscope.capture.findings import Finding, Status
from msmemscope.capture.operators import OLDEST_TORCH, version_numbers
from msmemscope.configuration import SETTINGS_VARIABLE, Config
from msmemscope.launch.ascend_diagnosis import diagnose_ascend
from msmemscope.launch.attaching.remote_call import why_nobody_may_trace
from msmemscope.launch.cuda_diagnosis import diagnose_cuda
from msmemscope.launch.ledger import create_launch_directory, read_ledger
from msmemscope.launch.preload import core_library, native_directory, preload_environment
from msmemscope.launch.shared_library import imported_functions
from msmemscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

SUPPORTED_PYTHONS = ((3, 10), (3, 13))
"""Oldest and newest Python whose call stacks can be read in the observed process."""

_SELF_TEST_SECONDS = 20
_LITTLE_SPACE_BYTES = 1 << 30
_BLOCK_SYMBOLS = frozenset({"posix_memalign", "free"})
_REBUILD = "install msmemscope again (pip install --force-reinstall msmemscope), or build it (make)"


def diagnose(config: Config) -> Iterator[Finding]:
    """Run every check, one after the other.

    Args:
        config: Settings as a launch would have them; nothing is left behind under its output root.
    """
    config = dataclasses.replace(config, native_directory=native_directory(config.package))
    yield _check_system()
    yield from _check_python()
    core_works = False
    for finding in _check_core(config):
        core_works = not finding.is_fatal
        yield finding
    yield from _check_torch()
    yield from diagnose_ascend(os.environ)
    yield from diagnose_cuda(os.environ)
    yield from _check_environment()
    yield _check_tracing()
    yield from _check_output(Path(config.output))
    if core_works:
        yield _self_test(config)


def _check_system() -> Finding:
    machine, system = platform.machine(), platform.system()
    detail = f"{system} {platform.release()} on {machine}"
    if system != "Linux" or machine not in {"x86_64", "aarch64"}:
        return Finding(Status.MISSING, "system", detail, "Linux on x86-64 or aarch64 is needed", is_fatal=True)
    return Finding(Status.OK, "system", detail)


def _check_python() -> Iterator[Finding]:
    oldest, newest = SUPPORTED_PYTHONS
    detail = f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}"
    if platform.python_implementation() != "CPython" or not oldest <= sys.version_info[:2] <= newest:
        supported = f"CPython {'.'.join(map(str, oldest))} to {'.'.join(map(str, newest))}"
        yield Finding(Status.WARN, "python", detail, f"Python call stacks need {supported}")
    else:
        yield Finding(Status.OK, "python", detail)
    for name in ("python", "python3"):
        path = shutil.which(name)
        if path is not None and not Path(path).samefile(sys.executable):
            advice = (
                "the checks below are about the former; start msmemscope with the Python of your program for others"
            )
            yield Finding(Status.WARN, f"'{name}' in PATH", f"{path}, not {sys.executable}", advice)


def _check_core(config: Config) -> Iterator[Finding]:
    path = core_library(config)
    if path is None:
        detail = "the native library libmsmemscope_core.so is not in the package"
        yield Finding(Status.MISSING, "native core", detail, _REBUILD, is_fatal=True)
        return
    environment = {**os.environ, "LD_PRELOAD": str(path)}
    environment.pop(SETTINGS_VARIABLE, None)
    trial = subprocess.run(
        ["/bin/true"], env=environment, capture_output=True, text=True, timeout=_SELF_TEST_SECONDS, check=False
    )
    if trial.returncode != 0 or "cannot be preloaded" in trial.stderr:
        detail = trial.stderr.strip() or f"a program that loads it ends with status {trial.returncode}"
        yield Finding(Status.MISSING, "native core", detail, _REBUILD, is_fatal=True)
        return
    yield Finding(Status.OK, "native core", str(path))
    if importlib.util.find_spec("msmemscope._native") is None:
        detail = f"the extension msmemscope._native is missing for Python {platform.python_version()}"
        yield Finding(Status.WARN, "python extension", detail, f"no Python stacks and operators; {_REBUILD}")
    else:
        yield Finding(Status.OK, "python extension", "msmemscope._native")


def _check_torch() -> Iterator[Finding]:
    version = _installed_version("torch")
    spec = importlib.util.find_spec("torch")
    if version is None or spec is None or spec.origin is None:
        advice = "without it CPU tensors and operators do not exist; install it where your program finds it"
        yield Finding(Status.WARN, "torch", "not found by this Python", advice)
        return
    if version_numbers(version) < OLDEST_TORCH:
        advice = f"operators are observed from PyTorch {'.'.join(map(str, OLDEST_TORCH))} on; memory is all the same"
        yield Finding(Status.WARN, "torch", version, advice)
    else:
        yield Finding(Status.OK, "torch", f"{version}, {Path(spec.origin).parent}")
    library = Path(spec.origin).parent / "lib" / "libc10.so"
    try:
        missing = _BLOCK_SYMBOLS - imported_functions(library)
    except (OSError, ELFError) as error:
        advice = "blocks of CPU tensors are not seen"
        yield Finding(Status.WARN, "libc10.so", f"{library} cannot be read: {error}", advice)
        return
    if missing:
        detail = f"{library} does not call {', '.join(sorted(missing))} through its import table"
        yield Finding(Status.WARN, "libc10.so", detail, "blocks of CPU tensors are not seen with this build of PyTorch")
    else:
        yield Finding(Status.OK, "libc10.so", "posix_memalign and free can be observed")


def _check_tracing() -> Finding:
    reason = why_nobody_may_trace()
    if reason is not None:
        return Finding(Status.MISSING, "tracing", reason, "only needed for msmemscope attach")
    return Finding(Status.OK, "tracing", "nothing forbids msmemscope attach")


def _check_environment() -> Iterator[Finding]:
    preloaded = os.environ.get("LD_PRELOAD")
    if preloaded:
        yield Finding(Status.WARN, "LD_PRELOAD", preloaded, "it is kept, after ours; unset it if a run behaves oddly")
    if os.environ.get(SETTINGS_VARIABLE):
        advice = "this is a launch within a launch; unset it if that is not meant"
        yield Finding(Status.WARN, SETTINGS_VARIABLE, "set", advice)


def _check_output(output: Path) -> Iterator[Finding]:
    existing = next(path for path in (output, *output.parents) if path.is_dir())
    subject = "output root"
    if not os.access(existing, os.W_OK | os.X_OK):
        yield Finding(Status.WARN, subject, f"{existing} cannot be written", "choose another one with --output")
        return
    mode = existing.stat().st_mode
    if mode & 0o002 and not mode & 0o1000:
        yield Finding(Status.WARN, subject, f"other users can write to {existing}", f"chmod o-w {existing}")
    else:
        yield Finding(Status.OK, subject, f"{output} ({'exists' if existing == output else 'will be created'})")
    free_bytes = shutil.disk_usage(existing).free
    advice = "an event takes 64 bytes; --max-size limits the log" if free_bytes < _LITTLE_SPACE_BYTES else ""
    status = Status.WARN if advice else Status.OK
    yield Finding(status, "disk space", f"{format_bytes(free_bytes)} free at {existing}", advice)
    problem = _space_reservation_problem(existing)
    if problem is not None:
        advice = "choose an --output on another file system (ext4, xfs, tmpfs ... can do it)"
        yield Finding(Status.MISSING, "fallocate", f"{existing}: {problem}", advice, is_fatal=True)
    else:
        yield Finding(Status.OK, "fallocate", "space for the event log can be reserved")


def _space_reservation_problem(directory: Path) -> str | None:
    """Why the file system cannot reserve space: the log needs the call itself, not glibc's imitation of it."""
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            library = ctypes.CDLL(None, use_errno=True)
            length = ctypes.c_int64(1 << 16)
            if library.fallocate64(file.fileno(), 0, ctypes.c_int64(0), length) != 0:
                return os.strerror(ctypes.get_errno())
    except OSError as error:
        return error.strerror or str(error)
    return None


def _self_test(config: Config) -> Finding:
    """Run a tiny program the way a launch does, and see whether the core reported it."""
    subject = "self test"
    advice = "report this with the output of msmemscope doctor"
    with tempfile.TemporaryDirectory(prefix="msmemscope_doctor_") as output:
        launch_directory = create_launch_directory(output)
        trial_config = dataclasses.replace(config, output=output, launch_directory=str(launch_directory))
        preload = preload_environment(trial_config, os.environ)
        command = [sys.executable, "-c", "print('done')"]
        try:
            trial = subprocess.run(
                command, env=preload.variables, capture_output=True, text=True, timeout=_SELF_TEST_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return Finding(Status.MISSING, subject, f"a tiny program could not be run: {error}", advice, is_fatal=True)
        finally:
            if preload.link_directory is not None:
                shutil.rmtree(preload.link_directory, ignore_errors=True)
        if trial.returncode != 0 or trial.stdout != "done\n":
            detail = f"a tiny program failed under observation: {trial.stderr.strip() or trial.returncode}"
            return Finding(Status.MISSING, subject, detail, advice, is_fatal=True)
        if not read_ledger(launch_directory).started:
            detail = "a tiny program ran, and the native core did not report it"
            return Finding(Status.MISSING, subject, detail, advice, is_fatal=True)
    return Finding(Status.OK, subject, "a tiny program was observed")


def _installed_version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
