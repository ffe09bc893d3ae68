"""The project file: where it is found, what it may say, and what wins over it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from msmemscope.cli.arguments import LaunchRequest, parse_command_line
from msmemscope.cli.main import main
from msmemscope.cli.project_file import read_project_file
from msmemscope.configuration import Config, with_options
from msmemscope.errors import UsageError

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 needs tomli, which tests do not bring")


def _pyproject(folder: Path, text: str) -> Path:
    path = folder / "pyproject.toml"
    path.write_text(f"[tool.msmemscope]\n{text}\n", encoding="utf-8")
    return path


def _config(folder: Path, *command_line: str) -> Config:
    """The settings of a program that is started in a folder."""
    found = read_project_file(folder)
    request = parse_command_line([*command_line, "python"])
    assert found is not None
    assert isinstance(request, LaunchRequest)
    return with_options(Config(), (*found.given, *request.given))


TYPED_AND_TEXT = [
    ('device = ["cpu", "npu:1"]', "--device=cpu,npu:1"),
    ('device = "cpu,npu:1"', "--device=cpu,npu:1"),
    ("steps = [1, 3]", "--steps=1,3"),
    ("steps = 3", "--steps=3"),
    ("steps = []", "--steps="),
    ("call-stack = { python = 10, c = 5 }", "--call-stack=python:10,c:5"),
    ("call-stack = true", "--call-stack=python"),
    ("call-stack = false", "--call-stack="),
    ('events = ["alloc", "access"]', "--events=alloc,access"),
    ("level = 1", "--level=1"),
    ('max-size = "2M"', "--max-size=2M"),
    ("max-size = 2097152", "--max-size=2M"),
    ('analysis = ["oom:20", "leaks"]', "--analysis=oom:20,leaks"),
    ('data-format = "db"', "--data-format=db"),
    ('format = "db"', "--data-format=db"),
    ("holder-time = 0", "--holder-time=0"),
    ('host = "off"', "--host=off"),
    ('watch = ["matmul", "add", "full-content"]', "--watch=matmul,add,full-content"),
    ("quiet = true", "--quiet"),
    ('output = "/tmp/results"', "--output=/tmp/results"),
    ('output = "~/results"', "--output=~/results"),
]


@pytest.mark.parametrize("line, option", TYPED_AND_TEXT)
def test_a_key_means_what_the_option_means(tmp_path: Path, line: str, option: str) -> None:
    """Whether it is written with a type of TOML or as the text of the command line."""
    _pyproject(tmp_path, line)
    request = parse_command_line([option, "python"])
    assert isinstance(request, LaunchRequest)
    assert _config(tmp_path) == with_options(Config(), request.given)


def test_the_command_line_wins_option_by_option(tmp_path: Path) -> None:
    """Options that the command line leaves out stay as the file says."""
    _pyproject(tmp_path, 'data-format = "db"\nsteps = [1]\nlog-level = "info"')
    config = _config(tmp_path, "--steps=2", "--quiet")
    assert (config.data_format.value, config.steps, config.log_level.value) == ("db", (2,), "error")


def test_output_is_relative_to_the_file(tmp_path: Path) -> None:
    """Results of a project come together, wherever in it a program is started."""
    _pyproject(tmp_path, 'output = "build/memory"')
    (tmp_path / "source").mkdir()
    assert _config(tmp_path / "source").output == str(tmp_path / "build" / "memory")


def test_a_switch_that_is_off_gives_nothing(tmp_path: Path) -> None:
    """There is no spelling for it on the command line."""
    _pyproject(tmp_path, "report = false\nquiet = false")
    found = read_project_file(tmp_path)
    assert found is not None
    assert found.given == ()


def test_the_nearest_file_holds_and_only_that(tmp_path: Path) -> None:
    """A pyproject.toml without our table is not one."""
    _pyproject(tmp_path, "steps = [1]\nlevel = 1")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "pyproject.toml").write_text("[project]\nname = 'msmemscope-user'\n", encoding="utf-8")
    found = read_project_file(inner)
    assert found is not None
    assert found.path == tmp_path / "pyproject.toml"
    (inner.parent / "msmemscope.toml").write_text("steps = [2]\n", encoding="utf-8")
    _pyproject(inner.parent, "steps = [3]")
    config = _config(inner)
    assert (config.steps, config.level) == ((2,), Config().level)


def test_the_search_ends_at_a_repository(tmp_path: Path) -> None:
    """A worktree has a file of that name; its own folder is looked at."""
    _pyproject(tmp_path, "steps = [1]")
    repository = tmp_path / "repository"
    (repository / "source").mkdir(parents=True)
    (repository / ".git").write_text("gitdir: elsewhere", encoding="utf-8")
    assert read_project_file(repository / "source") is None
    _pyproject(repository, "steps = [2]")
    assert _config(repository / "source").steps == (2,)


def test_the_search_ends_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders above home belong to others."""
    _pyproject(tmp_path, "steps = [1]")
    (tmp_path / "home" / "source").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert read_project_file(tmp_path / "home" / "source") is None


def test_a_file_of_another_user_in_a_folder_of_all_users_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else anybody who can write to /tmp would choose where results go."""
    path = _pyproject(tmp_path, "steps = [1]")
    tmp_path.chmod(0o1777)
    assert read_project_file(tmp_path) is not None
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345)
    else:
        monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    assert read_project_file(tmp_path) is None
    tmp_path.chmod(0o755)
    assert read_project_file(tmp_path) is not None


BAD_FILES = [
    # content of the table, then parts of the message and of the hint
    ("stepz = [1]", ["unknown key: 'stepz'", "steps"], "did you mean steps?"),
    ("call_stack = 'c'", ["unknown key: 'call_stack'"], "did you mean call-stack?"),
    ("input = 'a,b'", ["unknown key: 'input'"], None),
    ("help = true", ["unknown key: 'help'"], None),
    ("steps = [0]", [" steps: not a step: '0'", "integers >= 1"], None),
    ("steps = true", [" steps: cannot be a bool: 'True'", "integers >= 1"], None),
    ("max-size = 1.5", [" max-size: cannot be a float: '1.5'"], None),
    ("data-format = 'xml'", [" data-format: not a data format: 'xml'", "csv or db"], None),
    ("quiet = 'yes'", [" quiet: is a switch: 'yes'", "true or false"], None),
    ("output = ''", [" output: names no directory: ''"], None),
    ("steps = [", ["is not valid TOML"], "--no-project-file"),
]


@pytest.mark.parametrize("text, message, hint", BAD_FILES)
def test_a_wrong_file_is_refused_by_file_and_key(
    tmp_path: Path, text: str, message: list[str], hint: str | None
) -> None:
    """As on the command line: what, the value, and what is accepted."""
    path = _pyproject(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        read_project_file(tmp_path)
    for part in (str(path), *message):
        assert part in caught.value.message
    if hint is not None:
        assert hint in (caught.value.hint or "")


def test_a_table_that_is_none_is_refused(tmp_path: Path) -> None:
    """It was meant for us."""
    (tmp_path / "pyproject.toml").write_text("tool.msmemscope = 3\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"tool\.msmemscope: is not a table: '3'"):
        read_project_file(tmp_path)


def test_a_wrong_value_is_refused_although_the_command_line_wins(tmp_path: Path) -> None:
    """A fault of the file is seen at once, not when somebody leaves an option out."""
    _pyproject(tmp_path, "steps = [0]")
    with pytest.raises(UsageError):
        _config(tmp_path, "--steps=1")


def test_a_broken_file_of_other_tools_stops_nobody(tmp_path: Path) -> None:
    """It is not read as TOML where it does not name us."""
    (tmp_path / "pyproject.toml").write_text("[project\n", encoding="utf-8")
    assert read_project_file(tmp_path) is None


def test_a_refused_file_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 2, and nothing on disk; the file can be ignored."""
    _pyproject(tmp_path, "stepz = 1")
    monkeypatch.chdir(tmp_path)
    touch = ["touch", str(tmp_path / "started")]
    assert main(touch) == 2
    assert f"msmemscope: error: {tmp_path}/pyproject.toml: [tool.msmemscope]: unknown key" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["pyproject.toml"]
    assert main(["--no-project-file", "--", "/nowhere/at/all"]) == 127
    assert "stepz" not in capsys.readouterr().err


def test_verbs_do_not_look_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither does a command line without a program."""
    _pyproject(tmp_path, "stepz = 1")
    monkeypatch.chdir(tmp_path)
    assert main(["completion", "bash"]) == 0
    assert main(["--version"]) == 0


PROGRAM = """\
import sys
opened = []
sys.addaudithook(lambda event, arguments: opened.append(str(arguments[0])) if event == "open" else None)
import msmemscope
msmemscope.start()
msmemscope.stop()
print([name for name in opened if name.endswith(".toml")], "tomllib" in sys.modules)
"""


def test_a_run_takes_its_options_from_the_file(tmp_path: Path) -> None:
    """One line says which file; the observed program reads none; its results are where the file says."""
    path = _pyproject(tmp_path, 'output = "results"\nlog-level = "info"\ndevice = "cpu"\ndata-format = "db"')

    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-m", "msmemscope", sys.executable, "program.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert f"msmemscope: options of this project from {path}\n" in ended.stderr
    assert ended.stdout == "[] False\n"
    assert list((tmp_path / "results").rglob("*.db"))


def test_nothing_is_imported_for_a_project_without_a_file(tmp_path: Path) -> None:
    """A run must not wait for a parser that it does not need."""
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'other'\n", encoding="utf-8")
    code = (
        "import sys\nfrom msmemscope.cli.main import main\nmain(['--', '/nowhere/at/all'])\n"
        "print('tomllib' in sys.modules)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout == "False\n"


def test_nesting_without_end_is_not_valid_toml(tmp_path: Path) -> None:
    """The parser gives up where Python does; what is said is what is said of every broken file."""
    _pyproject(tmp_path, "device = " + "[" * 100_000)
    with pytest.raises(UsageError, match="is not valid TOML"):
        read_project_file(tmp_path)


def test_a_broken_file_that_only_names_the_tool_is_of_no_concern(tmp_path: Path) -> None:
    """A program starts, whatever is wrong with the settings of other tools."""
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["msmemscope"\nname = \n', encoding="utf-8")
    assert read_project_file(tmp_path) is None
