"""The place of a process, as its environment tells it: the variables of torchrun, MPI, Slurm and Ray."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from msmemscope.model.place import Place, is_number

TYPE_CHECKING = False  # typing itself is slow to import
if TYPE_CHECKING:
    from collections.abc import Mapping


class _Variables(NamedTuple):
    """Which variables a launcher sets; of several for one number, the first that is a number holds."""

    rank: str
    local_rank: tuple[str, ...] = ()
    world_size: tuple[str, ...] = ()
    local_world_size: tuple[str, ...] = ()
    restart_count: tuple[str, ...] = ()


_LAUNCHERS = (
    # torchrun, and all who set the variables that torch.distributed reads: Ray Train, verl (which has RAY_* besides).
    _Variables(
        "RANK",
        ("LOCAL_RANK", "RAY_LOCAL_RANK"),
        ("WORLD_SIZE",),
        ("LOCAL_WORLD_SIZE", "RAY_LOCAL_WORLD_SIZE"),
        ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"),
    ),
    _Variables(
        "OMPI_COMM_WORLD_RANK",
        ("OMPI_COMM_WORLD_LOCAL_RANK",),
        ("OMPI_COMM_WORLD_SIZE",),
        ("OMPI_COMM_WORLD_LOCAL_SIZE",),
        ("SLURM_RESTART_COUNT",),
    ),
    # Others with PMIx and PMI: MPICH, Intel MPI. Slurm's srun --mpi=pmix sets the numbers that they lack.
    _Variables(
        "PMIX_RANK",
        ("SLURM_LOCALID",),
        ("SLURM_STEP_NUM_TASKS",),
        ("SLURM_STEP_TASKS_PER_NODE",),
        ("SLURM_RESTART_COUNT",),
    ),
    _Variables("PMI_RANK", ("MPI_LOCALRANKID",), ("PMI_SIZE",), ("MPI_LOCALNRANKS",), ("SLURM_RESTART_COUNT",)),
    # Of the tasks of a step: a batch script that starts no step has SLURM_PROCID and is alone.
    _Variables(
        "SLURM_PROCID",
        ("SLURM_LOCALID",),
        ("SLURM_STEP_NUM_TASKS",),
        ("SLURM_STEP_TASKS_PER_NODE",),
        ("SLURM_RESTART_COUNT",),
    ),
)
"""In the order in which they are believed: torchrun under Slurm or MPI knows its processes, the others only itself."""

RANK_VARIABLES = tuple(one.rank for one in _LAUNCHERS)
"""Variables with the rank of a process, in the order in which they are believed."""

_DEFAULT_ROLE = "default"
"""The name that torchrun gives to the role of processes that were given none."""


def place_in_environment(environment: Mapping[str, str]) -> Place:
    """Read the place of a process: all numbers from one launcher, since those of another count something else.

    Args:
        environment: Its variables.
    """
    role = environment.get("ROLE_NAME", "")
    role = "" if role == _DEFAULT_ROLE else role
    for variables in _LAUNCHERS:
        rank = _number(environment, (variables.rank,))
        if rank is not None:
            return Place(
                rank=rank,
                local_rank=_number(environment, variables.local_rank),
                world_size=_number(environment, variables.world_size),
                local_world_size=_number(environment, variables.local_world_size),
                node=node_name(environment),
                restart_count=_number(environment, variables.restart_count),
                role=role,
            )
    return Place(role=role)


def node_name(environment: Mapping[str, str]) -> str:
    """The name of this host, as Slurm or the kernel has it."""
    return environment.get("SLURMD_NODENAME", "") or os.uname().nodename


def _number(environment: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    for name in names:
        text = environment.get(name, "")
        if name == "SLURM_STEP_TASKS_PER_NODE":
            # `4(x2)`: four on each of two nodes. Where nodes differ, `4,2`, it does not say which is this one.
            match = re.fullmatch(r"(\d+)(?:\(x\d+\))?", text, re.ASCII)
            text = match[1] if match else ""
        if is_number(text):
            return int(text)
    return None
