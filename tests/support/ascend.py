"""The Ascend stack of tests: where the virtual NPU and torch_npu are, and what the tool wrote about a program on it."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from tests.support.targets import environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.tool import ToolRun

PROGRAMS = Path(__file__).parents[1] / "ascend" / "programs"
"""C, C++ and Python programs that run on the virtual NPU."""

_EXPORT = re.compile(r"export (\w+)=(.*)")


class NotInstalledError(Exception):
    """Something that a test needs is not in this environment; the text says what."""


def torch_npu_folder() -> Path:
    """Return the folder from which `import torch_npu` works.

    It lies out of site-packages as a rule: where it is importable, `import torch` loads it, and fails without CANN.

    Raises:
        NotInstalledError: If there is none.
    """
    found = importlib.util.find_spec("torch_npu")
    places = [Path(sys.prefix) / "torch_npu"]
    if found is not None and found.origin is not None:
        places.append(Path(found.origin).parents[1])
    for place in places:
        if (place / "torch_npu" / "__init__.py").is_file():
            return place
    message = "torch_npu is not installed in this environment (make test-npu installs it)"
    raise NotInstalledError(message)


def torch_npu_version() -> str:
    """Return the version of torch_npu: `2.10.0.post4`.

    Raises:
        NotInstalledError: If there is none.
    """
    text = (torch_npu_folder() / "torch_npu" / "version.py").read_text(encoding="utf-8")
    found = re.search(r"__version__ = ['\"]([^'\"]+)", text)
    assert found is not None, text
    return found[1]


def torch_npu_release() -> tuple[int, int]:
    """Return the first two numbers of torch_npu's version.

    Raises:
        NotInstalledError: If there is none.
    """
    major, minor = torch_npu_version().split(".")[:2]
    return int(major), int(minor)


TOLD_SINCE = (2, 13)
"""The oldest torch_npu here that has a trace tracker, and entries of its history that name their pool."""


def virtual_npu_environment(*, with_torch: bool) -> dict[str, str]:
    """Return the variables with which a program runs on the virtual NPU; compiles its kernels once, if they are needed.

    Args:
        with_torch: Whether the program uses torch_npu. Without it no kernel is needed, and none computes.

    Raises:
        NotInstalledError: If the virtual NPU or torch_npu is missing.
    """
    return dict(_printed_variables(os.environ.get("PYTHONPATH", ""), with_torch=with_torch))


@functools.cache
def _printed_variables(python_path: str, *, with_torch: bool) -> Mapping[str, str]:
    """The variables that `vnpu env` prints, asked for once."""
    if importlib.util.find_spec("virtual_npu") is None:
        message = "the virtual NPU is not installed in this environment (make test-npu installs it)"
        raise NotInstalledError(message)
    changes = {}
    options = ["--compute=none"]
    if with_torch:
        if importlib.util.find_spec("torch") is None:
            message = "PyTorch is not installed in this environment"
            raise NotInstalledError(message)
        options = ["--compute=cpu"]
        folders = [str(torch_npu_folder()), *filter(None, python_path.split(os.pathsep))]
        changes["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(folders))
    printed = subprocess.run(
        [sys.executable, "-m", "virtual_npu", "env", *options],
        env=environment(**changes),
        capture_output=True,
        text=True,
        check=False,
    )
    if printed.returncode != 0:
        raise NotInstalledError(printed.stderr.strip())
    matches = filter(None, map(_EXPORT.fullmatch, printed.stdout.splitlines()))
    return {match[1]: shlex.split(match[2])[0] for match in matches} | {"TORCH_NPU_WARNING_DISABLE": "1"}


def attributes(text: str | None) -> dict[str, str]:
    """Read the Attr column of a CSV dump: `{key:value,key:value}`; a value may hold commas."""
    if not text:
        return {}
    assert text[0] == "{", text
    assert text[-1] == "}", text
    pairs = (part.partition(":") for part in re.split(r",\s*(?=\w+:)", text[1:-1]))
    return {key: value for key, _, value in pairs}


@dataclass(frozen=True)
class Observation:
    """A program on the virtual NPU that ran under the tool, and the rows of its dumps (CSV)."""

    run: ToolRun

    @cached_property
    def rows(self) -> Mapping[str, pl.DataFrame]:
        """Device (`0`, `cpu`) to its rows in ID order, of all observed processes; columns as dumps have them."""
        found: dict[str, list[pl.DataFrame]] = {}
        for path in sorted(self.run.output.glob("msmemscope_*_ascend*/device_*/dump/memscope_dump_*.csv")):
            rows = pl.read_csv(path, infer_schema=False).fill_null("")
            rows = rows.with_columns(pl.col("ID", "Timestamp(ns)", "Process Id", "Thread Id").cast(pl.Int64))
            found.setdefault(path.parents[1].name.removeprefix("device_"), []).append(rows)
        return {device: pl.concat(parts).sort("Process Id", "ID") for device, parts in found.items()}

    def of(self, device: int | str, **columns: str) -> list[dict[str, Any]]:
        """Return the rows of a device whose columns have these values, attributes added as `attributes`.

        Args:
            device: `0` or `"cpu"`.
            columns: Values of columns, blanks as underscores, in lower case: `event="MALLOC", event_type="HAL"`.
        """
        rows = self.rows.get(str(device))
        if rows is None:
            return []
        names = {re.sub(r"[^a-z]+", "_", name.lower()).strip("_"): name for name in rows.columns}
        for name, value in columns.items():
            rows = rows.filter(pl.col(names[name]) == value)
        return [{**row, "attributes": attributes(row["Attr"])} for row in rows.iter_rows(named=True)]

    def live_bytes(self, device: int | str, event_type: str) -> int:
        """Return the bytes of the blocks of one pool that were not freed."""
        blocks = {
            row["attributes"]["allocation_id"]: row for row in self.of(device, event="MALLOC", event_type=event_type)
        }
        for row in self.of(device, event="FREE", event_type=event_type):
            blocks.pop(row["attributes"]["allocation_id"], None)
        return sum(int(row["attributes"]["size"]) for row in blocks.values())
