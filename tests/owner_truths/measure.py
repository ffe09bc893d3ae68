"""Precision and recall of owners, in bytes, against what the programs say of their tensors.

`python -m tests.owner_truths.measure` prints the table of each device that is there: the CPU, the virtual NPU, an emulated
CUDA device. With names of programs (`training.ddp`) it takes only those.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from msmemscope.analysis.owners.decomposition import DECOMPOSED_KINDS
from msmemscope.analysis.owners.ownership import owners_of_capture
from msmemscope.formats.event_log import Capture
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from msmemscope.recording import recording_without_stacks
from tests.owner_truths import OWNERS
from tests.owner_truths.truth import MOMENT_BYTES, PAGE_BYTES
from tests.support import tool
from tests.support.ascend import NotInstalledError
from tests.support.devices import device_of_tests

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

NUMBER_BYTES = 8
"""A number in a computation is a tensor of this size. Autograd saves it without calling the hooks of saved tensors,
from which programs know the saved tensors. If we call it an activation, we are believed."""

CPU_PROGRAMS = (
    "training.plain",
    "training.lora",
    "training.moving_average",
    "training.checkpoints",
    "training.checkpoints_reentrant",
    "training.compiled",
    "training.ddp",
    "optimizers.attributes",
    "optimizers.masters",
    "optimizers.wrapped_masters",
    "optimizers.own",
    "optimizers.unmarked",
    "optimizers.two_backwards",
    "optimizers.adversaries",
    "inference.without_steps",
    "inference.caches_of_modules",
    "inference.growing_cache",
    "inference.static_cache",
    "inference.growing_pairs",
    "inference.listed_pairs",
    "inference.filled_pairs",
    "inference.passed_on_in_training",
)
NPU_PROGRAMS = (
    "training.plain",
    "training.lora",
    "training.checkpoints",
    "training.out_of_memory",
    "optimizers.masters",
    "optimizers.unmarked",
    "optimizers.two_backwards",
    "inference.without_steps",
    "inference.growing_cache",
    "inference.growing_pairs",
)
CUDA_PROGRAMS = tuple(name for name in CPU_PROGRAMS if name not in {"training.ddp", "training.compiled"})
"""Emulated devices have no NCCL, and cannot be compiled for."""
NIGHTLY_PROGRAMS = {
    "cpu": ("training.compiled_by_inductor",),
    "npu": (
        "training.moving_average",
        "training.checkpoints_reentrant",
        "training.compiled",
        "optimizers.attributes",
        "optimizers.wrapped_masters",
        "optimizers.own",
        "optimizers.adversaries",
        "inference.caches_of_modules",
        "inference.static_cache",
        "inference.filled_pairs",
        "inference.passed_on_in_training",
    ),
    "cuda": (),
}
PROGRAMS = {"cpu": CPU_PROGRAMS, "npu": NPU_PROGRAMS, "cuda": CUDA_PROGRAMS}
_POOLS = {"cpu": Pool.HOST, "npu": Pool.PTA, "cuda": Pool.CUDA}

_MOMENT = re.compile(r"^moment=(\{.*\})$", re.MULTILINE)
_END = re.compile(r"^program=(\S+) pid=(\d+) status=(-?\d+)$", re.MULTILINE)
_SMALL_DEVICE = {
    "npu": {"VNPU_MEMORY": "1GiB", "VNPU_DEVICES": "1"},
    "cuda": {"EMULATED_CUDA_BYTES": str(1 << 30), "EMULATED_CUDA_CONTEXT": "0"},
}


@dataclasses.dataclass(frozen=True)
class Row:
    """One owner in one program, over all its moments."""

    device: str
    program: str
    owner: str
    true_bytes: int
    found_bytes: int
    common_bytes: int
    """Of those found, those that are true."""

    @property
    def precision(self) -> float:
        """Of the bytes found, the share that is true."""
        return self.common_bytes / self.found_bytes if self.found_bytes else 1.0

    @property
    def recall(self) -> float:
        """Of the true bytes, the share that was found."""
        return self.common_bytes / self.true_bytes if self.true_bytes else 1.0


@dataclasses.dataclass(frozen=True)
class Difference:
    """A block whose owner is another one."""

    program: str
    moment: str
    true_owner: str
    found: str
    size_bytes: int


def measure(device: str = "cpu", programs: Sequence[str] | None = None, *, nightly: bool = False) -> list[Row]:
    """Run programs on a device and score them.

    Args:
        device: `cpu`, `npu` or `cuda`.
        programs: Their names; those of every day if not given.
        nightly: Whether those of the night are run as well.

    Raises:
        NotInstalledError: If there is no such device.
        AssertionError: If a program failed.
    """
    chosen = programs or PROGRAMS[device]
    if nightly:
        chosen = (*chosen, *NIGHTLY_PROGRAMS[device])
    with tempfile.TemporaryDirectory() as folder:
        return score(run(device, chosen, Path(folder)), device)[0]


def run(device: str, programs: Sequence[str], folder: Path) -> tool.ToolRun:
    """Run programs under the tool."""
    target = device_of_tests(device)
    variables = {
        "OWNER_TRUTHS_DEVICE": device,
        "OMP_NUM_THREADS": "1",
        **target.variables,
        **_SMALL_DEVICE.get(device, {}),
    }
    output = folder / "output"
    options = [f"--device={device}", "--analysis=decompose", "--call-stack=", f"--output={output}"]
    runner = Path(__file__).parents[1] / "support" / "run_programs.py"
    command = [*tool.TOOL, *options, "--", target.python, runner, "tests.owner_truths", *programs]
    finished = tool.run(command, output=output, variables=variables, timeout_s=600)
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    return finished


def score(
    finished: tool.ToolRun, device: str, *, owners: Collection[str] = OWNERS, whole_lives: bool = False
) -> tuple[list[Row], list[Difference]]:
    """Score a run: the rows of all owners that occur, and every block that differs.

    Args:
        finished: The programs under the tool.
        device: `cpu`, `npu` or `cuda`.
        owners: The owners that the programs tell apart. A block with another one counts as memory of operators.
        whole_lives: Whether a block has, at all moments, the owner that the program names at one of them. An example is
            a batch that was loaded before the forward pass that saves it.
    """
    rows: list[Row] = []
    differences: list[Difference] = []
    begin = 0
    for end in _END.finditer(finished.stdout):
        program, process_id, status = end.groups()
        assert status == "0", f"{program}\n{finished.stdout}\n{finished.stderr}"
        moments = [json.loads(match[1]) for match in _MOMENT.finditer(finished.stdout, begin, end.start())]
        begin = end.end()
        (folder,) = finished.output.glob(f"msmemscope_{process_id}_*_ascend*")
        found, other = _score_program(device, program, Capture(folder), moments, owners, whole_lives=whole_lives)
        rows += found
        differences += other
    return rows, differences


def _score_program(
    device: str,
    program: str,
    capture: Capture,
    moments: Iterable[Mapping[str, object]],
    owners: Collection[str],
    *,
    whole_lives: bool,
) -> tuple[list[Row], list[Difference]]:
    blocks, failed = _blocks(capture, _POOLS[device])
    totals = {owner: [0, 0, 0] for owner in OWNERS}
    differences = []
    told = []
    named: dict[int, str] = {}
    for moment in moments:
        size = int(str(moment["size"]))
        at = failed if size == 0 else _marker(blocks, size)
        alive = blocks.filter(
            (pl.col("malloc_sequence") < at) & (pl.col("free_sequence").is_null() | (pl.col("free_sequence") > at))
        ).sort("address")
        truth = _true_owners(alive, moment["addresses"])  # type: ignore[arg-type]
        told.append((str(moment["name"]), alive, truth))
        if whole_lives:
            named |= {
                block: owner
                for block, owner in zip(alive["malloc_sequence"], truth, strict=True)
                if owner != "operator" and block not in named
            }
    for name, alive, truth in told:
        for block, of_moment in zip(alive.iter_rows(named=True), truth, strict=True):
            is_unnamed = of_moment == "operator"
            true_owner = named.get(block["malloc_sequence"], of_moment) if is_unnamed else of_moment
            found = plain_owner(block["owner"])
            found = found if found in owners else "operator"
            if block["size"] == NUMBER_BYTES and (true_owner, found) == ("operator", "activation"):
                true_owner = found
            totals[true_owner][0] += block["size"]
            totals[found][1] += block["size"]
            if found == true_owner:
                totals[found][2] += block["size"]
            else:
                differences.append(Difference(program, name, true_owner, block["owner"], block["size"]))
    rows = [Row(device, program, owner, *sums) for owner, sums in totals.items() if any(sums)]
    return rows, differences


def _blocks(capture: Capture, pool: Pool) -> tuple[pl.DataFrame, int]:
    """The blocks of a pool with their owners, and the first failed allocation."""
    recording = recording_without_stacks(capture, (*DECOMPOSED_KINDS, EventKind.OOM))
    owners = owners_of_capture(capture).owners["owner"].cast(pl.String)
    blocks = recording.blocks.with_columns(owner=owners).filter(pl.col("pool") == int(pool))
    failures = recording.events.filter(pl.col("kind") == int(EventKind.OOM))["sequence"]
    return blocks, int(failures[0]) if len(failures) else 0


def _marker(blocks: pl.DataFrame, size: int) -> int:
    """The allocation that marks a moment; allocators may make it a little larger."""
    found = blocks.filter(pl.col("size").is_between(size, size + PAGE_BYTES - 1) & (pl.col("size") >= MOMENT_BYTES))
    assert found.height == 1, f"{found.height} blocks of {size} bytes"
    return int(found["malloc_sequence"][0])


def _true_owners(alive: pl.DataFrame, addresses: Mapping[str, Sequence[int]]) -> list[str]:
    owners = ["operator"] * alive.height
    begins = alive["address"].to_numpy()
    ends = begins + alive["size"].to_numpy().astype(begins.dtype)
    for owner, places in addresses.items():
        for address in places:
            place = int(np.searchsorted(begins, np.array(address, begins.dtype), side="right")) - 1
            assert place >= 0, f"{owner} at {address:x} is in no block"
            assert address < ends[place], f"{owner} at {address:x} is in no block"
            owners[place] = owner
    return owners


def plain_owner(text: str) -> str:
    """The word of OWNERS for an owner of the tool."""
    parts = text.split("@")[1:]
    if parts[:1] == ["model"]:
        return parts[1]
    for owner in ("kv_cache", "program"):
        if owner in parts:
            return owner
    return "operator"


def table(rows: Iterable[Row]) -> str:
    """The rows as text."""
    lines = [f"{'device':6}  {'program':32}  {'owner':16}  {'bytes':>12}  precision  recall"]
    lines += [
        f"{row.device:6}  {row.program:32}  {row.owner:16}  {row.true_bytes:12,}  {row.precision:9.4f}  {row.recall:6.4f}"
        for row in rows
    ]
    return "\n".join(lines)


def main(programs: Sequence[str]) -> int:
    """Print the table."""
    for device, every_day in PROGRAMS.items():
        of_device = every_day + NIGHTLY_PROGRAMS[device]
        chosen = [program for program in programs if program in of_device]
        if programs and not chosen:
            continue
        try:
            with tempfile.TemporaryDirectory() as folder:
                nightly = bool(os.environ.get("MSMEMSCOPE_NIGHTLY"))
                names = chosen or (of_device if nightly else every_day)
                rows, differences = score(run(device, names, Path(folder)), device)
        except NotInstalledError as missing:
            sys.stdout.write(f"{device}: {missing}\n")
            continue
        sys.stdout.write(f"{table(rows)}\n")
        for difference in differences:
            sys.stdout.write(f"{difference}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
