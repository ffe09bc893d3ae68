"""The memory of a training on the cpu is broken down to the byte."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from msmemscope.analysis.owners.decomposition import decompose, decompose_capture
from msmemscope.formats.reading import load_all
from msmemscope.model.owners import without_module
from msmemscope.model.pools import Pool
from tests.support.decompositions import check_training, node_bytes, total
from tests.support.targets import SOURCES
from tests.support.warm import run_observed, run_observed_with_results
from tests.unit.formats.dump.conftest import csv_rows

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.slow]

DECOMPOSE = "--analysis=decompose"


def test_training(output: Path) -> None:
    """Weights, gradients, optimizer state and activations are the exact sums of their storages, at every moment."""
    run = run_observed_with_results([SOURCES / "decompose_gpt.py", "cpu"], DECOMPOSE, output=output)
    assert run.returncode == 0, run.stderr
    # Blocks of CPU tensors have the size of their storage, only their address is aligned.
    check_training(run, Pool.HOST, "HOST", int)
    assert "  by owner " in run.stderr
    check_report((run.capture.directory / "report.txt").read_text(encoding="utf-8"))
    path = next(run.output.glob("*/device_cpu/dump/memscope_dump_*.csv"))
    check_dump(path)
    # The dump is made of the same facts as the event log.
    (recording,) = load_all(path)
    of_log, of_dump = decompose_capture(run.capture), decompose(recording)
    assert of_dump.at_steps.equals(of_log.at_steps)
    assert of_dump.pools[0].nodes.equals(of_log.pools[0].nodes)
    assert of_dump.over_time.equals(of_log.over_time)


def check_report(text: str) -> None:
    """The names of the largest parts are there, in order of size, and nothing says that it was not run."""
    section, _, _ = text[text.index("Owners on cpu (HOST)") :].partition("\n\n")
    words = [re.split(r"\s{2,}", line.strip())[0] for line in section.splitlines()[2:] if line.strip()]
    assert words[:5] == ["model", "activations", "optimizer state", "gradients", "weights"]
    assert set(words[5:]) <= {"operators", "held by the program"}
    assert "not run" not in text


def check_dump(path: Path) -> None:
    """Every MALLOC names its owner, and no other row does."""
    owners = [re.search(r"owner:([^,}]+)", row["Attr"]) for row in csv_rows(path) if row["Event"] == "MALLOC"]
    assert all(owners)
    assert any(found and found[1] == "HOST@model@weight@(GPT.blocks.0.attention)" for found in owners)
    kinds = {without_module(found[1]) for found in owners if found}
    parts = ("weight", "gradient", "optimizer_state", "activation")
    assert kinds >= {"HOST@ops@aten", *(f"HOST@model@{part}" for part in parts)}
    assert not any("owner:" in row["Attr"] for row in csv_rows(path) if row["Event"] != "MALLOC")


def test_frozen_layers_and_labels(output: Path) -> None:
    """Memory that every backward pass reads is no activation. Labels of the user come after those of the tool."""
    run = run_observed([SOURCES / "decompose_frozen.py", "cpu"], DECOMPOSE, output=output)
    assert run.returncode == 0, run.stderr
    decomposition = decompose_capture(run.capture)
    for step in (1, 2, 3):
        found = node_bytes(decomposition, step, Pool.HOST)
        assert found["HOST@model@weight"] == total(run.report["weights"])
        assert found["HOST@model"] == found["HOST@model@weight"]  # no activation outlives its step
        assert found["HOST@program@cache"] == int(run.report["cache"])
        assert found["HOST@program@mine"] == int(run.report["mine"])
        held = ("cache", "mine", "program")
        assert found["HOST@program"] == sum(total(run.report[part]) for part in held)


def test_weights_within_the_rest_after_a_long_look(output: Path) -> None:
    """The end of a first step is no time to rest: short programs end before the rest does."""
    run = run_observed([SOURCES / "decompose_after_a_long_look.py"], DECOMPOSE, output=output)
    assert run.returncode == 0, run.stderr
    found = node_bytes(decompose_capture(run.capture), 1, Pool.HOST)
    assert found["HOST@model@weight"] == int(run.report["weights"])


def test_nothing_of_it_without_being_asked(output: Path) -> None:
    """No labels are recorded, no owner is in the dump, and the summary has no section."""
    run = run_observed_with_results([SOURCES / "decompose_frozen.py", "cpu"], output=output)
    assert run.returncode == 0, run.stderr
    assert "by owner" not in run.stderr
    assert "Owners on" not in (run.capture.directory / "report.txt").read_text(encoding="utf-8")
    path = next(run.output.glob("*/device_cpu/dump/memscope_dump_*.csv"))
    owners = {owner for row in csv_rows(path) for owner in re.findall(r"owner:([^,}]*)", row["Attr"])}
    assert owners <= {"HOST@cache", "HOST@mine"}  # the labels that the program gives itself
