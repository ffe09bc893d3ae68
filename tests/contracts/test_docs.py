"""The documents tell the truth: commands run, options are described, links lead somewhere, both READMEs agree."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from msmemscope.cli.commands import VERBS, command_named
from msmemscope.configuration.options import OPTIONS, Option
from tests.support import tool
from tests.support.nightly import NIGHT
from tests.support.small_snapshot import write_snapshot
from tests.support.targets import environment

ROOT = Path(__file__).parents[2]
STORIES = (ROOT / "docs" / "stories.md", ROOT / "docs" / "stories.zh.md")
"""Their commands are run by tests/integration/test_stories.py; both have the same fences, says test_site.py."""
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "native").glob("*.md")])
READMES = (ROOT / "README.md", ROOT / "README.zh-CN.md")
LINES_OF_README = 110
ROWS_OF_COSTS = 3
# The pages of vnpu/ are tested beside it, in vnpu/tests/test_documents.py.

RUN_ELSEWHERE = {
    "msmemscope python examples/train_gpt.py --steps=6 --leak": (
        "tests/integration/test_stories.py, with what README.md shows of its output"
    ),
    "make demo": "the demo itself, run by hand before a release; its program is in tests/integration/test_training.py",
    "make demo-npu": "its program is in vnpu/tests/test_training.py",
    'eval "$(msmemscope env)"': "tests/ascend/test_preload_environment.py",
    'eval "$(msmemscope env --unset)"': "tests/ascend/test_preload_environment.py",
    "python train.py": "tests/ascend/test_preload_environment.py, with another program",
    "msmemscope metrics memscopeDumpResults --prometheus=127.0.0.1:9464": "tests/integration/test_metrics.py",
    "msmemscope metrics memscopeDumpResults --otlp=http://127.0.0.1:4318": "tests/integration/test_otlp_metrics.py",
    "msmemscope --max-size=64M --history=1h python train.py": "tests/integration/test_history.py, with seconds",
    "msmemscope history memscopeDumpResults --every=1h": "tests/integration/test_history.py, with seconds",
    "msmemscope attach 4242 --for=60s": "tests/integration/test_attach.py",
    "msmemscope control 4242 stop": "tests/integration/test_control.py",
    "msmemscope control 4242 start": "tests/integration/test_control.py",
    "msmemscope control 4242 snapshot": "tests/integration/test_control.py",
    "msmemscope control 4242 set call-stack=python:30 events=alloc,free,access": "tests/integration/test_control.py",
    "msmemscope control memscopeDumpResults snapshot": "tests/integration/test_control.py",
    "msmemscope --trigger='rss>90%|npu:0>60GiB|step_time>2x' python train.py": "tests/integration/test_triggers.py",
    "make test": "continuous integration",
    "make test-nightly": "each night",
    "make check": "tests/unit/check",
    "make lint": "continuous integration",
    "make build": "a step of make lint and make test",
    "make sanitize": "run by hand, needs minutes",
    "pip install .": "tests/contracts/test_wheel.py",
    "source <(msmemscope completion bash)": "tests/unit/cli/test_completion.py",
    "vnpu run --compute=none --ranks=8 -- msmemscope --device=npu python examples/train_in_parallel.py --size=7b": (
        "tests/ascend/test_dry_run_of_ranks.py, a smaller model on fewer ranks"
    ),
    "make wheels": "tests/contracts/test_wheel.py, each night",
    "pip install dist/msmemscope-*.whl": "a step of make wheels",
    "pip install --group build": "a step of make build",
    "pip install --no-build-isolation --editable '.[test,lint,view]'": "a step of make build",
    "python -m pytest -m 'not slow'": "would run this test again",
    "python -m pytest tests/contracts": "would run this test again",
}
"""Commands of the documents that this file does not run, and where they are run."""

TRAIN_WITHOUT_TORCH = 'import sys\nprint("training", sys.argv[1:])\n'
TRAIN = f"""
{TRAIN_WITHOUT_TORCH}
import torch
weight = torch.ones(8, 8, requires_grad=True)
for _ in range(3):
    (weight @ torch.ones(8)).sum().backward()
"""


EARLIER = "msmemscope python train.py"


ARCHIVE = "train.msmemscope"
"""Of the earlier run, where a command reads it."""


SNAPSHOT = "snapshot.pickle"
"""Of torch, where a command reads it."""


def commands_of(page: Path) -> list[str]:
    """The commands in fences tagged `console` (after `$ `) or `sh` (every line)."""
    found = []
    for tag, body in re.findall(
        r"^```(console|sh)\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    ):
        for line in body.splitlines():
            if tag == "sh":
                found.append(line.strip())
            elif line.startswith("$ "):
                found.append(line[2:].strip())
    return found


ALL_COMMANDS = sorted({command for page in PAGES if page not in STORIES for command in commands_of(page)})
TOOL_COMMANDS = [
    command for command in ALL_COMMANDS if command.startswith("msmemscope ") and command not in RUN_ELSEWHERE
]


def headings_of(page: Path) -> list[int]:
    """The levels of the headings, in order."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [len(marks) for marks in re.findall(r"^(#+) ", text, re.MULTILINE)]


def test_every_command_is_run_somewhere() -> None:
    """A command that nobody runs is a command that stops working unnoticed."""
    assert TOOL_COMMANDS, "no commands found"
    unknown = [command for command in ALL_COMMANDS if command not in RUN_ELSEWHERE and command not in TOOL_COMMANDS]
    assert not unknown, f"{unknown} are not run: list each in RUN_ELSEWHERE of this file, with the test that runs it"
    gone = sorted(set(RUN_ELSEWHERE) - set(ALL_COMMANDS))
    assert not gone, f"no document has {gone} any more: take them off RUN_ELSEWHERE of this file"


def in_a_shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of a shell with the commands that a user has."""
    here = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    run = subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env=environment(PATH=here),
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert run.returncode == 0, f"{line}\n{run.stdout}\n{run.stderr}"
    return run


def run_as_written(line: str, folder: Path) -> None:
    """Run a line of a shell as a user does. By day a forked tool runs with the words that the shell makes of it."""
    if NIGHT or line == EARLIER or re.search(r"[|&;<>$`()]", line):
        in_a_shell(line, folder)
        return
    command, *words = in_a_shell(f"printf '%s\\0' {line}", folder).stdout.split("\0")[:-1]
    assert command == "msmemscope"
    here = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    run = tool.run([*tool.TOOL, *words], output=folder, variables={"PATH": here}, folder=folder)
    assert run.returncode == 0, f"{line}\n{run.stdout}\n{run.stderr}"


@pytest.fixture(scope="module")
def earlier_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a train.py that uses torch, and its results."""
    folder = tmp_path_factory.mktemp("earlier")
    (folder / "train.py").write_text(TRAIN, encoding="utf-8")
    run_as_written(EARLIER, folder)
    return folder


@pytest.fixture(scope="module")
def archive(earlier_run: Path) -> Path:
    """The results of the earlier run in one file."""
    run_as_written(f"msmemscope export memscopeDumpResults --to=archive -o {ARCHIVE}", earlier_run)
    return (earlier_run / ARCHIVE).rename(earlier_run.with_suffix(".msmemscope"))


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("command", TOOL_COMMANDS)
def test_commands_of_the_tool_work_as_written(
    command: str, tmp_path: Path, earlier_run: Path, request: pytest.FixtureRequest
) -> None:
    """Run in a folder with a train.py and a user.sh, and with the results of an earlier run where they are named.

    By day train.py uses torch where operators are named; programs with torch are observed with each option elsewhere.
    """
    if command == EARLIER:
        return  # it was run by the fixture
    if "memscopeDumpResults" in command:
        shutil.copytree(earlier_run, tmp_path, dirs_exist_ok=True)
    elif ARCHIVE in command:
        shutil.copy(request.getfixturevalue("archive"), tmp_path / ARCHIVE)
    elif SNAPSHOT in command:
        write_snapshot(tmp_path)
    else:
        uses_torch = NIGHT or "torch." in command
        (tmp_path / "train.py").write_text(TRAIN if uses_torch else TRAIN_WITHOUT_TORCH, encoding="utf-8")
    (tmp_path / "user.sh").write_text("python train.py\n", encoding="utf-8")
    run_as_written(command, tmp_path)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_option_is_documented(option: Option) -> None:
    """Each has its section in docs/options.md."""
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    found = re.search(rf"^### `{re.escape(option.spelling)}[=`]", page, re.MULTILINE)
    assert found, f"docs/options.md has no section of {option.spelling}: run make docs"


def _spellings(parser: argparse.ArgumentParser) -> set[str]:
    """The options of a verb, and of the kinds below it."""
    found = {spelling for action in parser._actions for spelling in action.option_strings}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found.update(*map(_spellings, action.choices.values()))
    return found


def test_options_in_the_text_exist() -> None:
    """A page does not speak of an option that the tool does not have."""
    known = {spelling for option in OPTIONS for spelling in (option.spelling, *option.other_spellings)}
    for verb in VERBS:
        parser = argparse.ArgumentParser()
        command_named(verb).prepare_parser(parser)
        known.update(_spellings(parser))
    # The options that bash reads of the command.
    known.update(re.findall(r"--[a-z-]+", (ROOT / "native" / "command" / "msmemscope").read_text(encoding="utf-8")))
    # Of other programs, of the examples, and of the magic.
    others = {"--index-url", "--group", "--no-build-isolation", "--editable", "--native", "--strict", "--top", "--"}
    others |= {
        "--toolchain",
        "--leak",
        "--memory",
        "--most-answers",
        "--most-words",
        "--steps",
        "--standalone",
        "--nproc-per-node",
        "--cap-add",
        "--compute",
        "--streams",
        "--cann",
        "--driver",
        "--cuda",
        "--overhead",
        "--workspace",
        "--size",
    }
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        used = {match.rstrip("-") or "--" for match in re.findall(r"`[^`\n]*?(--[a-z][a-z-]*)", text)}
        used |= {match for command in commands_of(page) for match in re.findall(r"(?<!\S)--[a-z][a-z-]*", command)}
        wrong = sorted(used - known - others)
        assert not wrong, (
            f"{page.name} names {wrong}, which no verb has: mend the page, or run make docs if it is generated; "
            "options of other programs are listed in this test"
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_resolve(page: Path) -> None:
    """Every link to a file of the repository leads to one."""
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), f"{page.name} links to {target}: mend the link, or add that file"


def test_both_readmes_have_the_same_structure() -> None:
    """The same headings in the same order, the same fences, the same rows of tables, links to the same pages."""
    english, chinese = READMES
    remedy = "what one README has, write into the other one by hand"
    assert headings_of(english) == headings_of(chinese), remedy
    texts = [readme.read_text(encoding="utf-8") for readme in READMES]
    for pattern in (r"^```(\w+\n.*?)^```", r"^(\|)", r"\]\((\w+/[^)#\s]+)"):
        ours, theirs = (re.findall(pattern, text, re.MULTILINE | re.DOTALL) for text in texts)
        assert sorted(ours) == sorted(one.replace(".zh.md", ".md") for one in theirs), remedy


@pytest.mark.parametrize("readme", READMES, ids=lambda readme: readme.name)
def test_a_readme_fits_two_screens(readme: Path) -> None:
    """Whoever opens it sees what this is, how it begins, and where to read on."""
    assert len(readme.read_text(encoding="utf-8").splitlines()) <= LINES_OF_README


def test_figures_of_the_readme_stand_on_the_page_of_costs() -> None:
    """Each row of its table of costs is a row there, in both languages."""
    for readme, page in zip(READMES, ("costs.md", "costs.zh.md"), strict=True):
        rows = [
            line for line in readme.read_text(encoding="utf-8").splitlines() if re.search(r"\d µs|\d s, |\d s、", line)
        ]
        assert len(rows) == ROWS_OF_COSTS
        assert set(rows) <= set((ROOT / "docs" / page).read_text(encoding="utf-8").splitlines())


def test_python_examples_compile() -> None:
    """Snippets are valid Python."""
    for page in PAGES:
        for snippet in re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            compile(snippet, str(page), "exec")


def test_generated_pages_and_pictures_are_current() -> None:
    """`make docs` would change nothing."""
    run = subprocess.run(
        [sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, (
        f"{run.stderr}run python docs/generate.py, a part of make docs; it names each text whose Chinese is missing, for docs/generators/chinese.py"
    )


def test_the_walks_lead_over_files_that_exist() -> None:
    """Each step of ARCHITECTURE.md begins with a file, and no walk is longer than ten steps."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = text.partition("\n## Two walks\n")[2].partition("\n## ")[0]
    steps = re.findall(r"^(\d+)\. `([^`]+)` \S", section, re.MULTILINE)
    lines = re.findall(r"^(\d+)\. ", section, re.MULTILINE)
    assert lines.count("1") == 2, "ARCHITECTURE.md has two walks, each a numbered list under the heading Two walks"
    assert max(map(int, lines)) <= 10, "a walk has ten steps at most: leave out what the next file leads to anyway"
    assert len(steps) == len(lines), "each step of a walk in ARCHITECTURE.md begins with the name of a file"
    places = [ROOT if name.startswith("native/") else ROOT / "src" / "msmemscope" for _, name in steps]
    gone = [name for place, (_, name) in zip(places, steps, strict=True) if not (place / name).is_file()]
    assert not gone, f"walks of ARCHITECTURE.md name {gone}: name the file that does this now"


def test_the_documents_name_no_machine() -> None:
    """No path of somebody's machine."""
    home = re.compile(r"(?<![\w.])/(home|root|Users|tmp|work)/[a-z]")
    for page in PAGES:
        found = [line for line in page.read_text(encoding="utf-8").splitlines() if home.search(line)]
        assert not found, f"{page.name} names a folder of somebody's machine, write a relative one: {found}"


def test_make_is_documented_where_it_is_used() -> None:
    """`make help` lists every target that the documents use."""
    make = shutil.which("make")
    assert make is not None
    listed = subprocess.run([make, "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for command in ALL_COMMANDS:
        if command.startswith("make "):
            target = command.split()[1]
            assert target in listed, f"the documents use make {target}: give that target a `## ` text in the Makefile"
