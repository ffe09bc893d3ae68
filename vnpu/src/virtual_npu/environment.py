"""The environment variables with which a program runs on the virtual NPU."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from .compiled_kernels import ensure_kernels
from .installation import find_package, refuse_real_cann, require_matching_packages
from .libraries import cann_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .configuration import Configuration


def environment_variables(
    configuration: Configuration,
    environment: Mapping[str, str] | None = None,
    *,
    despite_cann: bool = False,
) -> dict[str, str]:
    """Return the variables to be set, and compile the kernels if they are needed and not there yet.

    Args:
        configuration: The choices of the user.
        environment: The environment that they are added to; the process's own if not given.
        despite_cann: Whether the virtual NPU may take the place of a real CANN.

    Raises:
        VirtualNpuError: If torch and torch_npu do not match, a real CANN is there, or the kernels cannot be compiled.
    """
    environment = os.environ if environment is None else environment
    cann = cann_folder()
    if not despite_cann:
        refuse_real_cann(environment)
    variables = configuration.variables()
    if configuration.compute == "cpu":
        torch, _ = require_matching_packages()
        # Set already where one program on the virtual NPU starts another.
        variables["VNPU_KERNELS"] = environment.get("VNPU_KERNELS") or str(ensure_kernels(torch, environment))
    elif find_package("torch") is not None and find_package("torch_npu") is not None:
        require_matching_packages()
    variables |= {
        "ASCEND_HOME_PATH": str(cann),
        "ASCEND_TOOLKIT_HOME": str(cann),
        "ASCEND_OPP_PATH": str(cann / "opp"),
        "LD_LIBRARY_PATH": with_first(str(cann / "lib64"), environment.get("LD_LIBRARY_PATH")),
        "PYTHONPATH": with_first(str(cann / "python"), environment.get("PYTHONPATH")),
    }
    if "OMP_NUM_THREADS" not in environment:
        # The kernels run on torch_npu's own thread beside the main one. Two teams of OpenMP threads on the same cores
        # make small operators a hundred times slower.
        variables["OMP_NUM_THREADS"] = "1"
    return variables


def with_first(folder: str, path: str | None) -> str:
    """Return a search path that begins with a folder, and has it once."""
    rest = [part for part in (path or "").split(os.pathsep) if part and Path(part) != Path(folder)]
    return os.pathsep.join([folder, *rest])
