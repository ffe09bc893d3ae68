"""A fault is found, the source is mended, the program runs again, and everything is asked again: twice in one folder."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.ascend import NotInstalledError, torch_npu_folder
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
    model = torch.nn.Linear(1024, 1024).npu()
    history = []
    for step in range(30):
        batch = torch.ones(1024, 1024, device="npu")
        history.append(model(batch))
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
        "history.append(model(batch))",
        "history[:] = [model(batch).sum().item()]",
        "out of memory",
        ("analyze", "oom"),
        "npu",
        (sys.executable, "-m", "virtual_npu", "run", "--memory=64M", "--"),
        fails=True,
    ),
}


class Shell:
    """A terminal in one folder."""

    def __init__(self, folder: Path, story: Story) -> None:
        self.folder = folder
        changes = {"OMP_NUM_THREADS": "1", "TORCH_NPU_WARNING_DISABLE": "1"}
        if story.device == "npu":
            try:
                changes["PYTHONPATH"] = os.pathsep.join(
                    filter(None, [str(torch_npu_folder()), os.environ.get("PYTHONPATH", "")])
                )
            except NotInstalledError as error:
                pytest.skip(str(error))
        self.environment = environment(**changes)

    def type(self, *words: str, prefix: tuple[str, ...] = (), status: int = 0) -> tuple[str, str]:
        """Run a command of ours; returns what it wrote to stdout and stderr, in which no error is."""
        result = subprocess.run(
            [*prefix, sys.executable, "-m", "msmemscope", *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == status, (words, result.stdout, result.stderr)
        assert "msmemscope: error" not in result.stderr, (words, result.stderr)
        return result.stdout, result.stderr


def look(shell: Shell, story: Story) -> str:
    """Ask what there is to ask of the latest run, and return the answer to the story's question."""
    shell.type("summary")
    answer, _ = shell.type(*story.question)
    shell.type("report")
    for format_name in ("csv", "flamegraph", "torch-snapshot", "archive"):
        shell.type("export", f"--to={format_name}", *(["-o", "run.out"] if format_name == "flamegraph" else []))
    shell.type("bug-report")
    shell.type("recover")
    return answer


@pytest.mark.parametrize("name", STORIES)
def test_a_program_is_mended_and_asked_again(name: str, tmp_path: Path) -> None:
    """No file is refused, and the comparison names the lines of the mended source."""
    story = STORIES[name]
    shell = Shell(tmp_path, story)
    program = tmp_path / "train.py"
    program.write_text(story.source, encoding="utf-8")
    run = [f"--device={story.device}", "python", "train.py"]
    for turn in range(2):
        _, summary = shell.type(*run, prefix=story.prefix, status=int(story.fails))
        assert story.verdict in summary
        look(shell, story)
        page = (tmp_path / "report.html").read_bytes()

        faulty = program.read_text(encoding="utf-8")
        before = faulty.splitlines().index(f"        {story.fault}") + 1
        comment = f"    # mended {'again' * turn}\n"
        text = faulty.replace("def train():\n", f"def train():\n{comment}")
        program.write_text(text.replace(story.fault, story.mended), encoding="utf-8")
        _, summary = shell.type(*run, prefix=story.prefix)
        assert story.verdict not in summary
        look(shell, story)
        assert (tmp_path / "report.html").read_bytes() != page

        compared, _ = shell.type("compare")
        assert f"train.py({before + 1}): train" in compared
        assert f"train.py({before}): train" not in compared
        for line in ("scratch", "batch ="):
            number = next(n for n, text in enumerate(faulty.splitlines(), 1) if text.strip().startswith(line))
            assert f"train.py({number + 1}): train" not in compared, "it did as before"
        with running_viewer(tmp_path / "cache", tmp_path / "memscopeDumpResults") as viewer:
            assert viewer.get("")[0] == 200
            assert viewer.content("verdicts") is not None
        program.write_text(text, encoding="utf-8")  # the fault comes back, below one more comment
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".partial") == []
    assert len(list(tmp_path.glob("*.html"))) == 1
    assert len(list(tmp_path.glob("*.zip"))) == 1
