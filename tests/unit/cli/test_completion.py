"""`msmemscope completion`: the scripts hold every word, and shells complete with them what somebody types."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import time
from typing import TYPE_CHECKING

import pytest

from msmemscope.cli import typed_words
from msmemscope.cli.commands import VERBS
from msmemscope.cli.main import main
from msmemscope.configuration import OPTION_BY_SPELLING, OPTIONS

if TYPE_CHECKING:
    from pathlib import Path

SHELLS = ("bash", "zsh", "fish")
PATIENCE_SECONDS = 20

SHOW = {
    "bash": 'msmemscope() { printf "typed: <%s>\\n" "$*"; }',
    "zsh": 'msmemscope() { printf "typed: <%s>\\n" "$*"; }',
    "fish": 'function msmemscope; printf "typed: <%s>\\n" "$argv"; end',
}
"""In place of the tool: says with what it was called."""

TYPED = (
    ("msmemscope summa", "summary"),
    ("msmemscope --eve", "--events"),
    ("msmemscope --data-format=d", "--data-format=db"),
    ("msmemscope --events=alloc,acc", "--events=alloc,access"),
    ("msmemscope analyze ineff", "analyze inefficient"),
    ("msmemscope export --to=perf", "export --to=perfetto"),
    ("msmemscope top --lim", "top --limit"),
    ("msmemscope --report cat a_file_wi", "--report cat a_file_with_a_long_name"),
)
"""The typed text before the tab, and the text after it."""


class Terminal:
    """A shell at a terminal."""

    def __init__(self, shell: str, folder: Path) -> None:
        command = {"bash": ["--norc", "--noprofile", "-i"], "zsh": ["-f", "-i"], "fish": ["--no-config", "-i"]}[shell]
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.chdir(folder)
            os.environ.update(HOME=str(folder), TERM="dumb", INPUTRC="/dev/null", COLUMNS="200")
            os.execvp(shell, [shell, *command])  # noqa: S606 - a shell is what is tested

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self.terminal, text.encode())

    def wait_for(self, pattern: str) -> str:
        """The text that the first group of the pattern matched on the screen."""
        seen = ""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            if select.select([self.terminal], [], [], 0.2)[0]:
                seen += os.read(self.terminal, 65536).decode(errors="replace")
            found = re.search(pattern, seen)
            if found is not None:
                return found[1]
        pytest.fail(f"{pattern} did not come: {seen!r}")

    def close(self) -> None:
        """Hang up."""
        os.close(self.terminal)
        os.waitpid(self.process, 0)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_what_is_typed(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Verbs, options, their values, and names of files behind a program."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    assert main(["completion", shell]) == 0
    prepare = "autoload -U compinit\ncompinit -u -D\n" if shell == "zsh" else ""
    (tmp_path / "a_file_with_a_long_name").touch()
    (tmp_path / "script").write_text(f"{prepare}{capsys.readouterr().out}\n{SHOW[shell]}\n", encoding="utf-8")
    terminal = Terminal(shell, tmp_path)
    try:
        terminal.type("source ./script; echo rea''dy\n")
        terminal.wait_for("(ready)")
        for before, after in TYPED:
            terminal.type(f"{before}\t")
            time.sleep(0.3)  # a tab that is still being answered would take the next key for one of its own
            terminal.type("\n")
            assert terminal.wait_for(r"typed: <([^>]*)>").rstrip("= ") == after
    finally:
        terminal.close()


@pytest.mark.parametrize("shell", SHELLS)
def test_every_word_is_there(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """All verbs and all options, by each of their names."""
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    words = set(re.findall(r"[\w-]+", script))
    missing = [verb for verb in VERBS if verb not in words]
    spellings = [spelling.lstrip("-") if shell == "fish" else spelling for spelling in OPTION_BY_SPELLING]
    assert missing + [spelling for spelling in spellings if spelling not in words] == []


def test_values_are_those_that_are_accepted() -> None:
    """A word that is offered for an option of a run is one that it takes."""
    offered = {one.spellings[0]: one.values for one in typed_words.options()}
    assert offered["--events"] == ("alloc", "free", "launch", "access", "traceback", "allocator")
    assert offered["--device"] == ("cpu", "npu", "cuda", "xpu", "mps")
    assert offered["--max-size"] == ()
    for option in OPTIONS:
        for value in offered[option.spelling]:
            assert option.parse is not None
            option.parse(option.accepted, option.spelling, value)


def test_values_of_verbs_are_words_of_their_help() -> None:
    """Formats, measures, languages; no piece of a sentence."""
    offered = {(verb.name, one.spellings[0]): one.values for verb in typed_words.verbs() for one in verb.options}
    assert offered["report", "--language"] == ("en", "zh")
    assert offered["top", "--by"] == ("peak", "leaked", "allocated", "churn", "blocks", "byte-seconds")
    assert offered["tree", "--of"] == offered["export", "--of"]
    assert "perfetto" in offered["export", "--to"]
    assert offered["events", "--kind"] == offered["recover", "--session"] == ()
