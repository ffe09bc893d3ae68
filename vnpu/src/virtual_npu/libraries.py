"""Where the emulated libraries are, and in which order they can be loaded."""

from __future__ import annotations

from pathlib import Path

import virtual_npu

from .errors import VirtualNpuError

# Each after those it is linked to.
LIBRARIES = (
    "libascend_hal.so",
    "libdcmi.so",
    "libprofapi.so",
    "libruntime.so",
    "libascendcl_impl.so",
    "libascendcl.so",
    "libacl_op_compiler.so",
    "libgraph.so",
    "libge_runner.so",
    "libacl_tdt_channel.so",
    "libmsprofiler.so",
    "libplatform.so",
    "libc_sec.so",
    "libnnopbase.so",
    "libatb.so",
    "libhccl.so",
    "libhcomm.so",
    "libms_tools_ext.so",
    "libopapi.so",
)


def cann_folder() -> Path:
    """Return the folder that takes the place of CANN's: ``lib64``, ``opp`` and what else torch_npu looks for.

    Raises:
        VirtualNpuError: If the package was not built.
    """
    for place in virtual_npu.__path__:  # an editable installation has two: the sources, and what was built
        folder = Path(place) / "cann"
        if (folder / "lib64" / LIBRARIES[0]).exists():
            return folder
    message = (
        "the emulated libraries are missing: this virtual_npu was not built\n"
        "hint: install it with pip (pip install ./vnpu); the sources alone are not enough"
    )
    raise VirtualNpuError(message)
