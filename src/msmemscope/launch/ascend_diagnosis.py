"""The layers of the Ascend stack on this machine, and whether they can be observed.

Nothing of it is loaded: a driver that does not work, or no device, must not keep the check from its end.
"""

from __future__ import annotations

import importlib.metadata
import platform
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elftools.common.exceptions import ELFError

from msmemscope.capture.findings import Finding, Status
from msmemscope.configuration import CANN_VARIABLES
from msmemscope.launch.shared_library import exported_functions, imported_functions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

OLDEST_CANN_FOR_ATB: Final = (8, 2)
OLDEST_MINDSPORE: Final = (2, 7, 0)
OLDEST_TORCH_NPU: Final[Mapping[tuple[int, ...], int]] = {(2, 1, 0): 12, (2, 3, 1): 6, (2, 4, 0): 4}
"""Packages of Ascend Extension for PyTorch 7.0.0: PyTorch's version to the number behind `.post`; newer ones need none."""
NEWEST_LISTED_TORCH_NPU: Final = (2, 5, 1)

_DRIVER: Final = "/usr/local/Ascend/driver/lib64"
_PLACES: Final = (
    _DRIVER,
    f"{_DRIVER}/driver",
    f"{_DRIVER}/common",
    "/usr/local/dcmi",
    "/usr/lib64",
    "/usr/lib",
    f"/usr/lib/{platform.machine()}-linux-gnu",
)
_USUAL_CANN: Final = "/usr/local/Ascend/ascend-toolkit/latest"
_VERSION_FILES: Final = (
    "version.info",
    "runtime/version.info",
    "compiler/version.info",
    f"{platform.machine()}-linux/ascend_toolkit_install.info",
)
_VERSION: Final = re.compile(r"^\s*version\s*[=:]\s*\[?([^\s\]]+)", re.IGNORECASE | re.MULTILINE)
_DRIVER_MEMORY: Final = frozenset({"halMemAlloc", "halMemFree"})
_DCMI: Final = frozenset({"dcmi_init", "dcmi_get_device_hbm_info", "dcmi_get_npu_proc_mem_info"})
_ATB_ENTRY: Final = "_ZN3atb6Runner7ExecuteERNS_17RunnerVariantPackE"
_RUNTIMES: Final = ("libruntime.so", "libascendcl.so", "libascendcl_impl.so", "libacl_rt_impl.so", "libruntime_v100.so")


def diagnose_ascend(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Check each layer, from the driver to the frameworks.

    Args:
        environment: The environment that an observed program would be started with.
    """
    stack = _Stack(environment)
    yield stack.cann()
    if not stack.is_there:
        yield from stack.frameworks()
        return
    yield stack.driver()
    yield stack.runtime()
    yield stack.kernels()
    yield stack.marks()
    yield from stack.frameworks()
    yield stack.atb()
    yield stack.usage()


class _Stack:
    """One CANN and what is installed around it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._home = next(filter(None, map(environment.get, CANN_VARIABLES)), "")
        self._atb_home = environment.get("ATB_HOME_PATH", "")
        searched = [*environment.get("LD_LIBRARY_PATH", "").split(":"), f"{self._home}/lib64", *_PLACES]
        self._places = [Path(place) for place in dict.fromkeys(searched) if place]
        self.is_there = bool(self._home) and Path(self._home).is_dir()

    def cann(self) -> Finding:
        subject = "CANN"
        if not self._home:
            if Path(_USUAL_CANN).is_dir():
                detail = f"{_USUAL_CANN} is there, but neither {' nor '.join(CANN_VARIABLES)} is set"
                return Finding(Status.WARN, subject, detail, "source /usr/local/Ascend/ascend-toolkit/set_env.sh")
            detail = f"neither {' nor '.join(CANN_VARIABLES)} is set"
            advice = (
                "only needed for NPUs; without one, the virtual NPU runs torch_npu on this machine (vnpu/README.md)"
            )
            return Finding(Status.MISSING, subject, detail, advice)
        if not self.is_there:
            advice = "source the set_env.sh of the CANN that is installed"
            return Finding(Status.MISSING, subject, f"the environment names {self._home}, which is not there", advice)
        return Finding(Status.OK, subject, f"{_version_in(Path(self._home)) or 'version unknown'}, {self._home}")

    def driver(self) -> Finding:
        subject = "driver (HAL)"
        library = self._find("libascend_hal.so")
        if library is None:
            advice = "install the NPU driver, or add its lib64 to LD_LIBRARY_PATH; memory of the driver is not seen"
            return Finding(Status.MISSING, subject, "libascend_hal.so was not found", advice)
        callers = [
            path.name
            for path in filter(None, map(self._find, _RUNTIMES))
            if _names(imported_functions, path) >= _DRIVER_MEMORY
        ]
        if not callers:
            detail = f"{library}, but no library of the runtime calls halMemAlloc through its import table"
            return Finding(Status.WARN, subject, detail, "memory of the driver is not seen; pools and operators are")
        return Finding(Status.OK, subject, f"{library}; called by {', '.join(callers)}, which can be observed")

    def runtime(self) -> Finding:
        subject = "runtime (ACL)"
        library = self._find("libascendcl.so")
        if library is None:
            advice = "complete the installation of CANN, or add its lib64 to LD_LIBRARY_PATH"
            return Finding(Status.MISSING, subject, "libascendcl.so was not found", advice)
        return Finding(Status.OK, subject, f"{library}; its calls can be observed")

    def kernels(self) -> Finding:
        subject = "kernels"
        missing = [name for name in ("libprofapi.so", "libruntime.so") if self._find(name) is None]
        if missing:
            advice = "--level=kernel then has no names of kernels, or no kernels at all"
            return Finding(Status.WARN, subject, f"{' and '.join(missing)} not found", advice)
        return Finding(Status.OK, subject, f"{self._find('libprofapi.so')}; launches and names with --level=kernel")

    def marks(self) -> Finding:
        """torch_npu and MindSpore open this one file, and no other of that name."""
        subject = "mstx"
        library = Path(self._home) / "lib64" / "libms_tools_ext.so"
        if not library.is_file():
            advice = "torch_npu and MindSpore report their pools through it: only the driver's memory is seen"
            return Finding(Status.MISSING, subject, f"{library} is not there", advice)
        return Finding(Status.OK, subject, f"{library}; marks, ranges and pools of the frameworks")

    def frameworks(self) -> Iterator[Finding]:
        yield _torch_npu(needed=self.is_there)
        version = _installed("mindspore")
        if version is not None:
            if _numbers(version) < OLDEST_MINDSPORE:
                advice = f"its pool is observed from {_dotted(OLDEST_MINDSPORE)} on"
                yield Finding(Status.WARN, "mindspore", version, advice)
            else:
                yield Finding(Status.OK, "mindspore", f"{version}; its memory pool can be observed")

    def atb(self) -> Finding:
        subject = "ATB"
        if not self._atb_home:
            advice = "only needed for programs that use ATB: source its set_env.sh"
            return Finding(Status.MISSING, subject, "ATB_HOME_PATH is not set", advice)
        library = Path(self._atb_home) / "lib" / "libatb.so"
        if not library.is_file():
            return Finding(Status.MISSING, subject, f"{library} is not there", "source the set_env.sh of ATB")
        if _ATB_ENTRY not in _names(exported_functions, library):
            detail = f"{library} has no atb::Runner::Execute"
            return Finding(Status.WARN, subject, detail, "its pool is seen, its operators are not")
        version = next(filter(None, map(_version_in, Path(self._atb_home).resolve().parents[:3])), "")
        place = f"{version or 'version unknown'}, {library}"
        if version and _numbers(version)[:2] < OLDEST_CANN_FOR_ATB:
            return Finding(Status.WARN, subject, place, "its operators are observed from CANN 8.2.RC1 on")
        return Finding(Status.OK, subject, f"{place}; operators, kernels and pool can be observed")

    def usage(self) -> Finding:
        subject = "DCMI"
        advice = "process_used and device_used are left out of the dump files; the figures of the pools are there"
        library = self._find("libdcmi.so")
        if library is None:
            return Finding(Status.WARN, subject, "libdcmi.so was not found", advice)
        missing = _DCMI - _names(exported_functions, library)
        if missing:
            return Finding(Status.WARN, subject, f"{library} lacks {', '.join(sorted(missing))}", advice)
        return Finding(Status.OK, subject, f"{library}; use of the device, and of it by the process")

    def _find(self, name: str) -> Path | None:
        return next((place / name for place in self._places if (place / name).is_file()), None)


def _torch_npu(*, needed: bool) -> Finding:
    version = _installed("torch_npu")
    if version is None:
        advice = "needed to observe PyTorch on NPUs" if needed else "only needed for NPUs"
        return Finding(Status.MISSING, "torch_npu", "not found by this Python", advice)
    release = _numbers(version)
    post = re.search(r"\.post(\d+)", version)
    if release < NEWEST_LISTED_TORCH_NPU and int(post[1] if post else 0) < OLDEST_TORCH_NPU.get(release, 1 << 30):
        advice = "Ascend Extension for PyTorch 7.0.0 or newer reports its pools; this one is older"
        return Finding(Status.WARN, "torch_npu", version, advice)
    return Finding(Status.OK, "torch_npu", f"{version}; its pools and operators can be observed")


def _version_in(folder: Path) -> str:
    """The version that one of the usual files of a folder states."""
    for name in _VERSION_FILES:
        try:
            found = _VERSION.search((folder / name).read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue
        if found is not None:
            return found[1]
    return ""


def _names(read: Callable[[Path], set[str]], library: Path) -> set[str]:
    try:
        return read(library)
    except (OSError, ELFError):
        return set()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version.partition("+")[0])[:3]))


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))


def _installed(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
