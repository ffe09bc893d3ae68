"""The memory of a training on an NPU is broken down to the byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

import msmemscope
from msmemscope.analysis.card.card import account_for_card
from msmemscope.analysis.owners.decomposition import decompose_capture
from msmemscope.model.owners import without_module
from msmemscope.model.pools import Pool
from tests.support.decompositions import check_training, node_bytes, total
from tests.support.targets import SOURCES

if TYPE_CHECKING:
    from tests.ascend.conftest import Observe

pytestmark = pytest.mark.slow

OPTIONS = ["--device=npu", "--analysis=decompose"]


def rounded(size_bytes: int) -> int:
    """The bytes that the caching allocator of torch_npu takes for a storage: 32 bytes more, rounded up to 512."""
    return -(-(size_bytes + 32) // 512) * 512


def test_training(observe: Observe) -> None:
    """Parts of the model are the exact sums of what the allocator gave them, and the ledger adds up."""
    observation = observe(OPTIONS, str(SOURCES / "decompose_gpt.py"), "npu")
    check_training(observation.run, Pool.PTA, "PTA", rounded)
    result = decompose_capture(observation.run.capture)
    for step in (None, *range(1, 7)):
        chosen = pl.col("step").is_null() if step is None else pl.col("step") == step
        parts = result.ledger.filter(chosen)
        (totals,) = result.devices.filter(chosen).rows(named=True)
        assert parts["size_bytes"].sum() == totals["driver_bytes"] == totals["process_bytes"]
        # The virtual driver adds 32 bytes to a block, and torch_npu asks for whole segments.
        unknown = parts.filter(pl.col("part") == "unknown")["size_bytes"].item()
        assert 0 <= unknown < 1 << 20
        pools = dict(parts.filter(pl.col("part") == "pool").select("name", "size_bytes").rows())
        assert pools["PTA"] >= node_bytes(result, step or 1, Pool.PTA)["PTA"]
    card = account_for_card(msmemscope.load(observation.run.capture.directory))
    assert card.total_bytes(0) == result.devices.filter(pl.col("step").is_null())["process_bytes"].item()
    assert 0 <= card.unknown_bytes(0) < card.total_bytes(0) / 100
    owners = {row["attributes"]["owner"] for row in observation.of(0, event="MALLOC")}
    assert {without_module(owner) for owner in owners} >= {
        "PTA@model@weight",
        "PTA@model@activation",
        "PTA@ops@aten",
        "CANN@APP",
    }
    report = (observation.run.capture.directory / "report.txt").read_text(encoding="utf-8")
    section = report[report.index("Memory of the driver on npu:0") :]
    assert "held by pools" in section
    assert "unknown" in section


def test_frozen_layers_and_labels(observe: Observe) -> None:
    """As on the cpu."""
    run = observe(OPTIONS, str(SOURCES / "decompose_frozen.py"), "npu", log_alone=True).run
    result = decompose_capture(run.capture)
    report = run.report
    for step in (1, 2, 3):
        found = node_bytes(result, step, Pool.PTA)
        assert found["PTA@model"] == found["PTA@model@weight"] == total(report["weights"], rounded)
        assert found["PTA@program@cache"] == rounded(int(report["cache"]))
        assert found["PTA@program@mine"] == rounded(int(report["mine"]))
        held = ("cache", "mine", "program")
        assert found["PTA@program"] == sum(total(report[part], rounded) for part in held)


def test_owners_only_where_they_are_asked_for(observe: Observe) -> None:
    """Rows of the driver have their page type always, and their owner only with this analysis."""
    observation = observe(["--device=npu"], str(SOURCES / "decompose_frozen.py"), "npu")
    rows = observation.of(0, event="MALLOC")
    owners = {row["attributes"]["owner"] for row in rows if "owner" in row["attributes"]}
    assert owners <= {"PTA@cache", "PTA@mine"}  # the labels that the program gives itself
    assert all("page_type" in row["attributes"] for row in rows if row["Event Type"] == "HAL")
