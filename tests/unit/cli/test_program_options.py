"""Options behind a program are the program's where its own files have their text."""

from __future__ import annotations

from pathlib import Path

import pytest

from msmemscope.cli.arguments import LaunchRequest, parse_command_line
from msmemscope.cli.program_options import knowing_file

PARSES = 'parser.add_argument("--steps")\nparser.add_argument("--analysis")\n'
WORDS = ["--steps=5", "--level=kernel", "--analysis=leaks"]


pytestmark = pytest.mark.usefixtures("in_folder_of_test")


def written(path: str, text: str) -> None:
    """A file of a program."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")


def parted(*words: str) -> LaunchRequest:
    """A command line, judged with the files that are here."""
    request = parse_command_line(words, known_by=knowing_file)
    assert isinstance(request, LaunchRequest)
    return request


@pytest.mark.parametrize(
    "program, files",
    [
        (["python", "train.py"], {"train.py": PARSES}),
        (["python3.11", "-u", "code/train.py"], {"code/train.py": "import arguments\n", "code/arguments.py": PARSES}),
        (["python", "-m", "package"], {"package/__main__.py": "from . import cli\n", "package/inner/cli.py": PARSES}),
        (["python", "-m", "package.train"], {"package/train.py": PARSES}),
        (["torchrun", "--nproc_per_node", "2", "train.py"], {"train.py": PARSES}),
        (["./program"], {"program": f"#!/usr/bin/env python3\n{PARSES}"}),
        (["bash", "user.sh"], {"user.sh": "case $1 in --steps|--analysis) ;; esac\n"}),
    ],
)
def test_what_the_program_knows_is_passed_on(program: list[str], files: dict[str, str]) -> None:
    """Whether its script, its package or a file beside it takes the option; what knows it is named."""
    for path, text in files.items():
        written(path, text)
    request = parted(*program, *WORDS)
    assert request.given == ()
    assert request.program == (*program, *WORDS)
    assert request.left_to_program == tuple(WORDS)
    assert Path(request.known_by).read_text(encoding="utf-8") == list(files.values())[-1]
    before = parted("--analysis=oom", "--", *program, *WORDS)
    assert [one.value for one in before.given] == ["oom"]


@pytest.mark.parametrize(
    "text",
    [
        "parser.add_argument('--steps_per_epoch')\nparser.add_argument('--no-analysis')\n",
        "# run me: msmemscope python train.py --steps=5 --level=kernel --analysis=leaks\n",
        "steps = 5\n",
        "",
    ],
)
def test_what_it_does_not_know_is_ours(text: str) -> None:
    """Longer options are other ones, and how we are called is no option of the program."""
    written("train.py", text)
    request = parted("python", "train.py", *WORDS)
    assert [one.option.name for one in request.given] == ["steps", "level", "analysis"]
    assert request.program == ("python", "train.py")
    assert request.left_to_program == ()


def test_each_option_is_judged_by_itself() -> None:
    """A program that knows one of them need not know the other."""
    written("train.py", 'parser.add_argument("--steps")\n')
    request = parted("python", "train.py", *WORDS)
    assert request.left_to_program == ("--steps=5", "--level=kernel")
    assert request.taken_from_program == ("--analysis=leaks",)


def test_files_that_cannot_be_read_say_nothing() -> None:
    """Neither do programs that are not there."""
    written("train.py/inner.py", PARSES)
    Path("link.py").symlink_to("nowhere.py")
    assert knowing_file(["python", "link.py"], ["--steps"]) == ""
    assert knowing_file(["python", "gone.py"], ["--steps"]) == ""
    assert knowing_file(["no-such-program"], ["--steps"]) == ""
    assert knowing_file(["python", "-m"], ["--steps"]) == ""


@pytest.mark.parametrize(
    "value, is_ours",
    [
        ("op0:1,op1,full-content", True),
        ("token0/layer0/module0/op0,token0/layer0/module0/op1,full-content", True),
        ("token0/layer0/module0/op0", True),
        ("torch._ops.aten.add.Tensor", True),
        ("aten.mm.default:out0,aten.add.Tensor", True),
        ("LinearOperation", True),
        ("aclnnAdd_AddAiCore", True),
        ("anything,full-content", True),
        ("train_loss", False),
        ("loss,accuracy", False),
        ("metrics.json", False),
        ("./runs", False),
        ("gradients", False),
        ("auto", False),
        ("5", False),
        ("true", False),
    ],
)
def test_only_operators_are_watched_from_behind_the_program(value: str, is_ours: bool) -> None:  # noqa: FBT001
    """Any other value of `--watch` is the program's."""
    request = parted("python", "train.py", f"--watch={value}")
    assert (request.given != ()) == is_ours
    assert (request.program == ("python", "train.py")) == is_ours
