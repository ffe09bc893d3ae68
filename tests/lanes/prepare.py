"""Makes a virtual environment ready to be a version lane: it gets to see the packages of the tests' own environment.

`make` runs ``python prepare.py LANE OWN [OTHER]`` with the folders of the environments. The lane has a torch and a
torch_npu of its own, or those of the other lane. Everything else comes from the tests' environment, also msmemscope and
the virtual NPU. It comes after the packages of the lane.

``python prepare.py OWN`` is for the tests' own environment. Like a lane, it may have the build of torch for CUDA: PyPI
has that one for x86-64.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from pathlib import Path

_REGISTERS_AGAIN = (2, 13)
"""The first torch_npu here that registers settings of the allocator which a CUDA build of torch registers too."""

_LOADER = '''\
"""Takes back the settings that a CUDA build of torch registers, when torch is there and torch_npu not yet."""

import ctypes
import sys


class _BeforeTorchNpu:
    def find_spec(self, name, path=None, target=None):
        if name == "torch_npu._C" and self in sys.meta_path:
            sys.meta_path.remove(self)
            ctypes.CDLL({library!r})
        return None


sys.meta_path.insert(0, _BeforeTorchNpu())
'''


def packages_folder(environment: Path) -> Path:
    """Return where an environment of this Python's version has its packages."""
    # Python 3.10 has no scheme of that name, and lays environments out like this.
    scheme = "venv" if "venv" in sysconfig.get_scheme_names() else "posix_prefix"
    return Path(sysconfig.get_path("platlib", scheme, {"base": str(environment), "platbase": str(environment)}))


def version_in(file: Path) -> str:
    """Return the version that a package's `version.py` states.

    Raises:
        ValueError: If it states none.
    """
    found = re.search(r"__version__ = ['\"]([^'\"]+)", file.read_text(encoding="utf-8"))
    if found is None:
        message = f"{file} states no version"
        raise ValueError(message)
    return found[1]


def needs_to_take_back(torch: str, torch_npu: str) -> bool:
    """Return whether this torch_npu ends the process beside this torch: see `beside_cuda.cpp`."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", torch_npu)[:2])
    return "+cu" in torch and numbers >= _REGISTERS_AGAIN


def borrow(lane: Path, other: Path) -> None:
    """Let a lane have torch and torch_npu of another one."""
    (packages_folder(lane) / "other_lane.pth").write_text(f"{packages_folder(other)}\n", encoding="utf-8")
    torch_npu = lane / "torch_npu"
    if not torch_npu.exists():
        torch_npu.symlink_to(other / "torch_npu")


def take_back_for_cuda(environment: Path) -> None:
    """Let an environment import torch_npu beside a build of torch for CUDA, if that needs it.

    Raises:
        subprocess.CalledProcessError: If the library for it does not compile.
    """
    packages = packages_folder(environment)
    torch = packages / "torch"
    if not needs_to_take_back(
        version_in(torch / "version.py"), version_in(environment / "torch_npu" / "torch_npu" / "version.py")
    ):
        return
    library = packages / "libbeside_cuda.so"
    libraries = torch / "lib"
    source = Path(__file__).with_name("beside_cuda.cpp")
    linked = [f"-L{libraries}", "-lc10", f"-Wl,-rpath,{libraries}"]
    subprocess.run(["c++", "-shared", "-fPIC", "-O1", str(source), "-o", str(library), *linked], check=True)
    (packages / "beside_cuda.py").write_text(_LOADER.format(library=str(library)), encoding="utf-8")
    (packages / "beside_cuda.pth").write_text("import beside_cuda\n", encoding="utf-8")


def main(lane: Path, own: Path | None = None, other: Path | None = None) -> None:
    """Write what the lane needs, compiled where it has to be.

    Raises:
        subprocess.CalledProcessError: If the library for a CUDA build does not compile.
    """
    if own is not None:
        (packages_folder(lane) / "zz_own_environment.pth").write_text(
            f"import site; site.addsitedir({str(packages_folder(own))!r})\n", encoding="utf-8"
        )
    if other is not None:
        borrow(lane, other)
    else:
        take_back_for_cuda(lane)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
