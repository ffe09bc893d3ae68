"""docs/compatibility.md, from the results of runs in compatibility.jsonl.

A line is a run that was made: `package`, `version`, `device`, `checked`, `result` and `detail`, all of them texts.
`checked` has what the program does, a colon, and what was compared. `make test-training` writes such lines into the
file that the variable MSMEMSCOPE_COMPATIBILITY names. Of the same package, version, device and check the last line
counts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from generators import chinese_compatibility

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RESULTS = Path(__file__).with_name("compatibility.jsonl")
KEY = ("package", "version", "device", "checked")

HEAD = """\
# Packages that were tried

<!-- Generated from docs/generators/compatibility.jsonl by `make docs`; do not edit. -->

Each row is a run: a small program that uses the package as published, under `msmemscope --analysis=decompose`. The program knows who
owns each of its tensors:

- parameters and buffers;
- gradients, and the buffers in which they are exchanged;
- the state of the optimizer;
- tensors that autograd saves;
- the layers of the cache.

The program names these owners in the middle of forward and backward passes, and before and after each update. Then the owner of every
live block is compared. **Equal** means that all of them agree, to the byte, in every process. The virtual NPU runs the real torch_npu.
No NPU was used.

`make test-training` installs these versions and runs the programs of training again. They are in `tests/frameworks/`.
"""
VERSIONS = """
## Versions of torch_npu

`make test-lanes` runs the same tests with each of these on the virtual NPU, each with its torch. `make test-vllm-ascend` serves with the
real vLLM-Ascend. The differences are:

| | torch_npu 2.10.0.post4 | torch_npu 2.13.0 | torch_npu 2.14.0 |
|---|---|---|---|
| collection, pools, leaks, owners, watching, steps, several processes | as in 2.13.0 | yes | as in 2.13.0 |
| `--events=allocator` | no: the allocator has no trace tracker; the fact `unobserved.allocator` names the reason | yes | yes |
| torch's memory snapshots | entries name no pool: that of blocks that are in no segment is unknown | entries name their pool | as in 2.13.0 |
| operators | seen below Python | seen below Python | seen in Python: torch 2.14 calls operators in another way |
| beside a CUDA build of torch | loads | loads | ends the process: both register settings of the same names; use a CPU build |

vLLM-Ascend 0.23.0 with vLLM 0.23.0 and torch_npu 2.10.0.post4 generates tokens in eager mode. Weights and the KV cache have their owner, to
the byte. Operators of torch replace its one Triton kernel there, as triton-ascend is not on the index. Its custom operators are off, as
they ask for `libregister.so`. For 310P, model and cache are made and have their owner. The first token stops at ReshapeAndCache.
"""
COLUMNS = ("Package", "Version", "Device", "What was checked", "Result", "With")


def page() -> str:
    """The page as Markdown."""
    return _page(HEAD, str) + VERSIONS


def chinese_page() -> str:
    """The same in Chinese.

    Raises:
        KeyError: A text of a row has no Chinese.
    """
    return _page(chinese_compatibility.HEAD, chinese_compatibility.TEXTS.__getitem__) + chinese_compatibility.VERSIONS


def _page(head: str, text: Callable[[str], str]) -> str:
    rows: dict[tuple[str, ...], Mapping[str, str]] = {}
    for line in RESULTS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        rows[tuple(row[name] for name in KEY)] = row
    columns = f"\n| {' | '.join(map(text, COLUMNS))} |\n{'|---' * len(COLUMNS)}|\n"
    return head + columns + "".join(_row(row, text) for row in rows.values())


def _row(row: Mapping[str, str], text: Callable[[str], str]) -> str:
    what, _, owners = row["checked"].partition(": ")
    compared = ", ".join(text(owner).replace("_", " ") for owner in owners.split(", ") if owner)
    checked = f"{text(what)}: {compared}" if compared else text(what)
    cells = (f"`{row['package']}`", row["version"], text(row["device"]), checked, text(row["result"]), row["detail"])
    return f"| {' | '.join(cells)} |\n"
