"""Compares what a recording of `decompose_gpt.py` is made of with what the program said of its tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from msmemscope.analysis.owners.decomposition import Decomposition, decompose_capture
from msmemscope.model.events import EventKind
from tests.support.recordings import events_of
from tests.support.targets import parse_report

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from msmemscope.formats.event_log import Capture
    from tests.support.tool import ToolRun


def total(sizes: str, rounded: Callable[[int], int] = int) -> int:
    """The sum of sizes joined by `+`, each rounded as its allocator does."""
    return sum(rounded(int(size)) for size in sizes.split("+"))


def node_bytes(decomposition: Decomposition, step: int, pool: int) -> Mapping[str, int]:
    """Node to bytes of a pool at the end of a step of the recording; 0 for nodes that hold nothing."""
    rows = decomposition.at_steps.filter((pl.col("step") == step) & (pl.col("pool") == pool))
    return dict(rows.select("node", "size_bytes").rows())


def pool_bytes(capture: Capture, pool: int) -> list[int]:
    """The bytes that a pool has in use at the end of each step, summed up event by event."""
    totals, in_use = [], 0
    for kind, of_pool, size in events_of(capture).select("kind", "pool", "size").iter_rows():
        if kind == EventKind.STEP:
            totals.append(in_use)
        elif of_pool == pool and kind == EventKind.MALLOC:
            in_use += size
        elif of_pool == pool and kind == EventKind.FREE:
            in_use -= size
    return totals


def check_training(run: ToolRun, pool: int, root: str, rounded: Callable[[int], int]) -> None:
    """Check every moment that the program told of, to the byte.

    Args:
        run: The program under the tool, with `--analysis=decompose`.
        pool: The pool of its tensors.
        root: The first part of their owners' names.
        rounded: Bytes of a storage to bytes of its block.
    """
    decomposition = decompose_capture(run.capture)
    moments = parse_report(run.stdout)
    in_use = pool_bytes(run.capture, pool)
    assert len(moments) == len(in_use) == 6
    for number, printed in enumerate(moments, start=1):
        found = node_bytes(decomposition, number, pool)
        # All owners add up to the pool.
        assert found[root] == in_use[number - 1]
        assert sum(size for node, size in found.items() if node.count("@") == 1) == found[root]
        if printed["moment"] == "step":
            assert found[f"{root}@model@weight"] == total(printed["weights"], rounded)
            assert found[f"{root}@model@gradient"] == total(printed["gradients"], rounded)
            assert found[f"{root}@model@optimizer_state"] == total(printed["states"], rounded)
            assert printed["in_use"] in {"0", str(found[root])}
            # The program still holds its batch, which was saved for the backward pass, and the results.
            assert found[f"{root}@model@activation"] == rounded(1024)
        else:
            assert found[f"{root}@model@activation"] == total(printed["activations"], rounded)
            # Variables of the loop, which live on until the next turn.
            assert found[f"{root}@program"] == total(printed["results"], rounded)
            check_against_tracker(printed)


def check_against_tracker(printed: Mapping[str, str]) -> None:
    """Explain every byte between activations and those of torch's own MemTracker, which does not round on these devices.

    The tracker counts all living results of operators of the forward pass, saved for the backward pass or not. Logits
    and loss are such results. It does not count the batch, which was made before, as an activation.
    """
    activations = total(printed["activations"]) - total(printed["batch"]) + total(printed["results"])
    assert activations == int(printed["tracked_act"])
    assert total(printed["batch"]) == int(printed["tracked_oth"])
