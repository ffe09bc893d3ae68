"""Growth where no step is: in workers, in phases before, between and after steps, in cycles, in a queue that empties at the end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.support import tool
from tests.support.nightly import nightly

if TYPE_CHECKING:
    from pathlib import Path

PHASES = """\
import sys, torch, torch.nn as nn
model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
kept = []

def train(count):
    for _ in range(count):
        optimizer.zero_grad()
        model(torch.randn(16, 64)).square().mean().backward()
        optimizer.step()

def serve(count):
    with torch.no_grad():
        for _ in range(count):
            answer = model(torch.randn(64, 64))
            if "kept" in sys.argv:
                kept.append(answer)

for phase in sys.argv[1].split(","):
    train(5) if phase == "train" else serve(60)
"""

WORKERS = """\
import sys, torch
torch.set_num_threads(1)

class Memo(torch.utils.data.Dataset):
    def __init__(self):
        self.seen = {}

    def __len__(self):
        return 80

    def __getitem__(self, index):
        sample = torch.randn(32768)
        if "kept" in sys.argv:
            self.seen[index] = sample.clone()
        return sample

if __name__ == "__main__":
    model = torch.nn.Linear(32768, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    for batch in torch.utils.data.DataLoader(Memo(), 2, num_workers=2, multiprocessing_context=sys.argv[1]):
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""

MANAGER = """\
import multiprocessing, time
import numpy as np, torch

if __name__ == "__main__":
    with multiprocessing.Manager() as manager:
        decoded = manager.dict()
        for number in range(300):
            decoded[number] = np.full(75_000, number, np.float32)
            time.sleep(0.02)
        print(torch.tensor(decoded[5]).sum().item())
"""

COPIED_ON_WRITE = """\
import time
import numpy as np

np.zeros((40_000, 1024), np.float32).tofile("features.bin")
features = np.memmap("features.bin", np.float32, "c", shape=(40_000, 1024))
for start in range(0, 40_000, 100):
    features[start : start + 100] += 1.0
    rows = [str(number) * 200 for number in range(start, start + 400)]
    time.sleep(0.02)
"""

CYCLES = """\
import gc, sys, torch
from torch import nn

class Trial:
    def __init__(self, rate):
        self.decay = 0.9
        self.model = nn.Sequential(nn.Linear(256, 2048), nn.ReLU(), nn.Linear(2048, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=rate)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda epoch: self.decay ** epoch)

    def run(self):
        for _ in range(5):
            loss = self.model(torch.randn(64, 256)).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.schedule.step()

if "kept" in sys.argv:
    gc.disable()  # one collection near the end would leave nothing
for number in range(10):
    Trial(10 ** (-2 - number / 5)).run()
    if "kept" not in sys.argv:
        gc.collect()
"""


def first_screen(folder: Path, program: str, *arguments: str) -> str:
    """The first part of a run's summary, as one line."""
    (folder / "program.py").write_text(program)
    output = folder / "output"
    command = [*tool.TOOL, f"--output={output}", "--", sys.executable, "program.py", *arguments]
    run = tool.run(command, output=output, folder=folder, timeout_s=120)
    screen = run.stderr[run.stderr.rindex("\nmsmemscope: ") + 1 :]
    return " ".join(screen.split("\n\n")[0].split())


@pytest.mark.parametrize(
    ("phases", "when"),
    [
        pytest.param("serve,train", "before the first step has ended", marks=nightly),
        pytest.param("train,serve,train", "within step 6", marks=nightly),
        ("train,serve", "after the last step"),
    ],
)
def test_a_phase_that_keeps_its_answers(tmp_path: Path, phases: str, when: str) -> None:
    """Named with the phase, the line and the list; where nothing is kept, nothing is said."""
    screen = first_screen(tmp_path, PHASES, phases, "kept")
    assert "slow leak: 9" in screen
    assert f"at program.py(15): serve, {when}, held by __main__.kept[59]" in screen
    assert "nothing found" in first_screen(tmp_path, PHASES, phases)


@pytest.mark.parametrize("start", ["fork", pytest.param("spawn", marks=nightly)])
def test_workers_that_keep_what_they_decoded(tmp_path: Path, start: str) -> None:
    """They end in an orderly way, so that what held the blocks is known; the table of processes has the bytes."""
    screen = first_screen(tmp_path, WORKERS, start, "kept")
    assert "slow leak: 9.00 MiB on cpu at program.py(14): __getitem__" in screen
    assert "held by Memo.seen[" in screen
    assert "nothing found" in first_screen(tmp_path, WORKERS, start)


@nightly
def test_trials_that_wait_for_the_garbage_collector(tmp_path: Path) -> None:
    """The cycle is named; with a collection after each trial nothing waits."""
    screen = first_screen(tmp_path, CYCLES, "kept")
    assert "leak: " in screen
    assert "in a reference cycle through" in screen
    assert "LambdaLR.lr_lambdas[0]" in screen
    assert "nothing found" in first_screen(tmp_path, CYCLES)


@nightly
def test_a_process_that_others_keep_memory_in(tmp_path: Path) -> None:
    """It is forked from one with torch, and has no tensors itself."""
    screen = first_screen(tmp_path, MANAGER)
    assert "host memory: 8" in screen
    assert "multiprocessing/connection.py" in screen


@nightly
def test_pages_that_are_copied_when_they_are_written(tmp_path: Path) -> None:
    """Nobody allocates them: that memory rose is said, and nothing is ruled out."""
    screen = first_screen(tmp_path, COPIED_ON_WRITE)
    assert screen.startswith("msmemscope: growth not judged: host memory rose by 15")
    assert "steady growth" not in screen
