"""Prints how exactly the model of the caching allocator does what the real one does: `python -m tests.allocator_exactness`.

Runs every program of `tests/ascend/programs/allocator_programs.py` under every setting, with the real torch_npu on the
virtual NPU. Then it compares the model with the history that torch recorded, and prints three tables in Markdown.

The first table is about replays with the settings of the run. It has the share of allocations at which the block's
address and the reserved bytes are equal. The second one replays a run with default settings under other settings. It
has the share of requests that agree with a real run under those settings. A request agrees if as much is reserved and
if memory is there, or missing, as in the real run. The third table has the request at which such runs parted.

`--write` puts the tables into docs/replay.md and its Chinese twin. `--cuda` prints the same tables for torch.cuda, on a
machine with a CUDA device. The driver then gives the allocator a fraction of that device.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.support.allocator_runs import (
    CUDA_SETTINGS,
    NAMES,
    SETTINGS,
    compare,
    real_run,
    run_cuda_programs,
    run_programs,
)
from tests.support.ascend import virtual_npu_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.support.allocator_runs import Comparison, RealRun

SEED: Final = 7
DEFAULT: Final = "default"
_DOCS: Final = Path(__file__).parents[1] / "docs"
_BEGIN: Final = "<!-- exactness: begin -->"
_END: Final = "<!-- exactness: end -->"
_ALL: Final = 1.0


def main(words: list[str]) -> int:
    """Run, compare, and print the tables."""
    on_cuda = "--cuda" in words
    every = CUDA_SETTINGS if on_cuda else SETTINGS
    others = [name for name in every if name != DEFAULT]
    runs = _runs(every, in_order=False, on_cuda=on_cuda)
    same = _table(list(every), lambda program, settings: _said(runs[program, settings].same_share))
    runs = _runs(every, in_order=True, on_cuda=on_cuda)
    comparisons = {
        (program, settings): compare(runs[program, DEFAULT], runs[program, settings])
        for program in NAMES
        for settings in others
    }
    changed = _table(others, lambda program, settings: _compared(comparisons[program, settings]))
    text = f"{same}\n\n{changed}\n\n{_partings(comparisons, others)}\n"
    sys.stdout.write(text)
    if "--write" in words and not on_cuda:
        for name in ("replay.md", "replay.zh.md"):
            page = (_DOCS / name).read_text(encoding="utf-8")
            before, after = page.split(_BEGIN)[0], page.split(_END)[1]
            (_DOCS / name).write_text(f"{before}{_BEGIN}\n\n{text}\n{_END}{after}", encoding="utf-8")
    return 0


def _runs(every: Mapping[str, Any], *, in_order: bool, on_cuda: bool) -> dict[tuple[str, str], RealRun]:
    """Every program under every setting."""
    cases = {
        f"{program}-{name}": {"program": program, **given, "seed": SEED}
        for program in NAMES
        for name, given in every.items()
    }
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        failed = (
            run_cuda_programs(folder, cases, in_order=in_order)
            if on_cuda
            else run_programs(folder, cases, virtual_npu_environment(with_torch=False), in_order=in_order)
        )
        if failed:
            raise SystemExit(failed)
        return {
            (program, name): real_run(folder, f"{program}-{name}", given)
            for program in NAMES
            for name, given in every.items()
        }


def _compared(comparison: Comparison) -> str:
    share = _said(comparison.equal / comparison.compared)
    return f"{share} ({comparison.compared})" if comparison.parted else share


def _partings(comparisons: dict[tuple[str, str], Comparison], others: Sequence[str]) -> str:
    """Where the two runs parted: at which request, after how many retries, in which of the two memory ran out."""
    lines = ["| program | default settings run out of memory | the other settings run out of memory |", "|---|---|---|"]
    for program in NAMES:
        cells = []
        for where in ("recorded", "real"):
            places: dict[tuple[int, int], list[str]] = {}
            for settings in others:
                found = comparisons[program, settings]
                if found.parted == where:
                    places.setdefault((found.compared, found.retries), []).append(settings)
            cells.append(
                "; ".join(
                    f"{', '.join(names)}: request {request}, {retries} retries before"
                    for (request, retries), names in sorted(places.items())
                )
            )
        if any(cells):
            lines.append(f"| {program} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _table(settings: Sequence[str], cell: Callable[[str, str], str]) -> str:
    """Programs down, settings across."""
    lines = [f"| program | {' | '.join(settings)} |", f"|---|{'---|' * len(settings)}"]
    lines += [f"| {name} | {' | '.join(cell(name, each) for each in settings)} |" for name in NAMES]
    return "\n".join(lines)


def _said(share: float) -> str:
    """In percent, rounded down so that 100 is all of them."""
    return "100" if share == _ALL else f"{int(share * 1000) / 10:.1f}"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
