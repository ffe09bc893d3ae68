"""A fault is found, the source is mended, the program runs again, and everything is asked again: twice in one folder."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from msmemscope.cli.main import main
from tests.support.ascend import NotInstalledError, torch_npu_folder
from tests.support.nightly import nightly
from tests.support.targets import environment
from tests.support.viewer import running_viewer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.slow]

LEAKING = """\
import torch


def train():
    model = torch.nn.Linear(256, 1024)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept = []
    for _ in range(8):
        batch = torch.randn(512, 256)
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        kept.append(torch.ones(1 << 18))
        scratch = torch.ones(1 << 16)
    del scratch


train()
"""
TOO_LARGE = """\
import torch
import torch_npu


def train():
    history = []
    for step in range(30):
        batch = torch.ones(2048, 2048, device="npu")
        history.append(batch * step)
        scratch = torch.ones(256, 1024, device="npu")
    del scratch
    return history


train()
"""


@dataclasses.dataclass(frozen=True)
class Story:
    """A program with a fault, and how it is mended."""

    source: str
    fault: str
    """A line of it, without its blanks."""
    mended: str
    verdict: str
    """Begin of the first line about the fault."""
    question: tuple[str, ...]
    device: str
    prefix: tuple[str, ...] = ()
    fails: bool = False


STORIES = {
    "leak": Story(
        LEAKING,
        "kept.append(torch.ones(1 << 18))",
        "kept[:] = [torch.ones(1 << 18)]",
        "leak: ",
        ("analyze", "leaks"),
        "cpu",
    ),
    "out of memory": Story(
        TOO_LARGE,
        "history.append(batch * step)",
        "history[:] = [batch * step]",
        "out of memory",
        ("analyze", "oom"),
        "npu",
        (sys.executable, "-m", "virtual_npu", "run", "--memory=512M", "--"),
        fails=True,
    ),
}


class Shell:
    """A terminal in one folder."""

    def __init__(self, folder: Path, story: Story, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.story = story
        self.capsys = capsys
        changes = {"OMP_NUM_THREADS": "1", "TORCH_NPU_WARNING_DISABLE": "1"}
        if story.device == "npu":
            try:
                changes["PYTHONPATH"] = os.pathsep.join(
                    filter(None, [str(torch_npu_folder()), os.environ.get("PYTHONPATH", "")])
                )
            except NotInstalledError as error:
                pytest.skip(str(error))
        self.environment = environment(**changes)

    def run(self, *, status: int = 0) -> str:
        """Run the program under observation; returns what was written to stderr."""
        ours = [sys.executable, "-m", "msmemscope", f"--device={self.story.device}"]
        result = subprocess.run(
            [*self.story.prefix, *ours, "python", "train.py"],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == status, (result.stdout, result.stderr)
        assert "msmemscope: error" not in result.stderr
        return result.stderr

    def ask(self, *words: str) -> str:
        """Type a verb; returns what it wrote to stdout."""
        self.capsys.readouterr()
        status = main(words)
        written = self.capsys.readouterr()
        assert status == 0, (words, written)
        assert "msmemscope: error" not in written.err, (words, written.err)
        return written.out


def look(shell: Shell, story: Story) -> None:
    """Ask what there is to ask of the latest run."""
    shell.ask("summary")
    shell.ask(*story.question)
    shell.ask("report")
    for format_name in ("csv", "flamegraph", "torch-snapshot", "archive"):
        shell.ask("export", f"--to={format_name}", *(["-o", "run.out"] if format_name == "flamegraph" else []))
    shell.ask("recover")


@nightly
@pytest.mark.parametrize("name", ["leak", "out of memory"])
def test_a_program_is_mended_and_asked_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No file is refused, and the comparison names the lines of the mended source."""
    monkeypatch.chdir(tmp_path)
    story = STORIES[name]
    shell = Shell(tmp_path, story, capsys)
    program = tmp_path / "train.py"
    program.write_text(story.source, encoding="utf-8")
    for turn in range(2):
        assert story.verdict in shell.run(status=int(story.fails))
        look(shell, story)
        page = (tmp_path / "report.html").read_bytes()

        faulty = program.read_text(encoding="utf-8")
        before = faulty.splitlines().index(f"        {story.fault}") + 1
        comment = f"    # mended {'again' * turn}\n"
        text = faulty.replace("def train():\n", f"def train():\n{comment}")
        program.write_text(text.replace(story.fault, story.mended), encoding="utf-8")
        assert story.verdict not in shell.run()
        look(shell, story)
        assert (tmp_path / "report.html").read_bytes() != page

        assert f"train.py({before + 1}): train" in shell.ask("compare")
        parts = json.loads(shell.ask("compare", "--json"))["peak_parts"]
        (mended,) = [part for part in parts if (part["site"] or "").endswith(f"train.py({before + 1}): train")]
        assert mended["base_bytes"] > mended["compare_bytes"] > 0
        only_in_base = {part["name"] for part in parts if part["compare_count"] == 0}
        only_in_compare = {part["name"] for part in parts if part["base_count"] == 0}
        assert not only_in_base & only_in_compare, "a line that moved is one line"
        with running_viewer(tmp_path / "cache", tmp_path / "memscopeDumpResults") as viewer:
            assert viewer.get("")[0] == 200
            assert viewer.content("verdicts") is not None
        program.write_text(text, encoding="utf-8")  # the fault comes back, below one more comment
    assert [path for path in tmp_path.iterdir() if path.suffix == ".partial"] == []
    assert len(list(tmp_path.glob("*.html"))) == 1
    assert len(list(tmp_path.glob("*.pickle"))) == 4, "one for each run: their names differ"
