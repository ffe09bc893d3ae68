"""Archives of real programs: taken away from the machine's libraries and the program's folder, they say what the log says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from msmemscope.cli.main import main
from msmemscope.formats.event_log import Capture, symbols
from msmemscope.formats.event_log.symbols import Symbolizer
from msmemscope.formats.reading import load
from tests.support.warm import run_observed

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import RunUnderTool
    from tests.support.targets import Builder

TABLES = ("events", "blocks", "strings", "python_stacks", "native_stacks", "attributes")
MOST_BYTES = 10


def test_both_stacks_of_a_real_program(
    python_target: Callable[..., list[str | Path]],
    target_builder: Builder,
    run_under_tool: RunUnderTool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also the names of native frames, where no library of that machine can be opened."""
    target = python_target("python_stacks", str(target_builder.library()))
    run = run_under_tool(target, "--call-stack=python,c")
    assert run.returncode == 0, run.stderr
    folder = run.capture.directory
    assert main(["export", str(folder), "--to=archive", "-o", str(tmp_path / "run.msmemscope")]) == 0
    here = load(folder)
    assert here.native_stacks["text"].str.contains(Path(target_builder.library()).name).any()
    monkeypatch.setattr(Symbolizer, "_file", lambda *_: None)
    monkeypatch.setattr(symbols, "_names", {})
    assert not load(folder).native_stacks.equals(here.native_stacks)
    elsewhere = load(tmp_path / "run.msmemscope")
    for name in TABLES:
        assert getattr(elsewhere, name).equals(getattr(here, name)), name
    assert elsewhere.facts == here.facts
    assert elsewhere.process_id == here.process_id


@pytest.mark.torch
def test_a_run_is_small(output: Path, tmp_path: Path) -> None:
    """Hundreds of thousands of events, from a program with an order of its own."""
    program = tmp_path / "program.py"
    program.write_text(
        "import random\n"
        "chance = random.Random(1)\n"
        "kept = []\n"
        "import torch\n"
        "for _ in range(30_000):\n"
        "    kept.append(torch.empty(chance.randrange(1, 100_000)))\n"
        "    if len(kept) > chance.randrange(1, 64):\n"
        "        del kept[chance.randrange(len(kept))]\n",
        encoding="utf-8",
    )
    run = run_observed([program], "--call-stack=python", "--events=alloc,free,launch,access", output=output)
    assert run.returncode == 0, run.stderr
    path = tmp_path / "run.msmemscope"
    assert main(["export", str(run.capture.directory), "--to=archive", "-o", str(path)]) == 0
    events = Capture(path).event_count()
    assert events == run.capture.event_count() > 100_000
    assert path.stat().st_size / events < MOST_BYTES
