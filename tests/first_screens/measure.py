"""Shows and judges first screens: `python -m tests.first_screens.measure [--write] [NAMES]`.

Each program runs as somebody would type it. The catalogue has the words that its first line must have, and those that
must not be on the screen. The rest of the screen is a golden file, without the parts that differ from run to run.
`--write` writes the golden files anew.
"""

from __future__ import annotations

import re
import shlex
import sys
from typing import TYPE_CHECKING, Final

from tests.first_screens.catalogue import SCREENS
from tests.first_screens.running import scratch_folder, screen_of
from tests.first_screens.screen import Screen, Way
from tests.support.ascend import NotInstalledError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_CURVE: Final = re.compile(r"^  [▁▂▃▄▅▆▇█ _.:=+*#@-]+ \d+\.\d\d s$", re.MULTILINE)
_VARYING: Final = (
    (re.compile(r"msmemscope_\d+_\d+_ascend(?:_\w+)?"), "msmemscope_RUN_ascend"),
    (re.compile(r"\b0x[0-9a-f]+\b"), "ADDRESS"),
    # How large libraries are, and which parts have room in a line, differs between machines.
    (re.compile(r"^(Host memory: ).* at the peak, .*\n  .*$", re.MULTILINE), r"\1PARTS"),
    (re.compile(r"^(Host memory of \d+ together: ).*$", re.MULTILINE), r"\1SIZE"),
    (re.compile(r"\bprocess(es)? \d+(?:, \d+)*(?: and \d+)?"), r"process\1 PID"),
    (re.compile(r"^\d{2,}(?= python)", re.MULTILINE), "PID"),
    (re.compile(r"\(process \d+\)"), "(process PID)"),
    (re.compile(r"memscope_dump_\d+"), "memscope_dump_TIME"),
    (re.compile(r"python3\.\d+"), "python3.X"),
    (re.compile(r"[\d,]+(\s+)(event|row)s?\b"), r"N\1\2s"),
    (re.compile(r"\d+\.\d+ s\b"), "T s"),
    (re.compile(r"\b\d+ ms\b"), "T ms"),
)
"""Texts that differ from run to run, and their replacements."""
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)(\s+)(KiB|MiB|GiB|%)")
_SIGNIFICANT: Final = 2
_TITLE: Final = "msmemscope: "
_OF_THE_TOOL: Final = (_TITLE, "hint: ")


def normalised(text: str, folder: Path, *, is_exact: bool = False) -> str:
    """Return a screen without what differs from run to run: paths, times, processes, and sizes to two digits.

    Args:
        text: The text that stood on the terminal.
        folder: The folder in which it ran.
        is_exact: Whether to keep sizes as they are.
    """
    text = of_the_tool(text).replace(f"{folder}/", "").replace(str(folder), "HERE").replace(sys.prefix, "VENV")
    text = _CURVE.sub("  [curve] T s", text)
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    text = text if is_exact else _SIZE.sub(_rounded, text)
    # Columns are as wide as what stands in them, which is shorter now.
    lines = [re.sub(r"(?<=\S) {2,}", "  ", line.rstrip()) for line in text.splitlines()]
    shown = [line for line in lines if "running as root" not in line]
    return "\n".join(shown).strip("\n") + "\n"


def of_the_tool(text: str) -> str:
    """Return what the tool wrote, without what the program or its libraries did.

    Args:
        text: The text that stood on the terminal.
    """
    lines = text.splitlines()
    titles = [
        number for number, line in enumerate(lines) if line.startswith(_TITLE) and (not number or not lines[number - 1])
    ]
    begin = titles[-1] if titles else len(lines)
    before = [line for line in lines[:begin] if line.startswith(_OF_THE_TOOL)]
    return "\n".join([*before, *([""] if before and titles else []), *lines[begin:]])


def _rounded(size: re.Match[str]) -> str:
    number = float(size[1])
    text = str(round(number)) if size[3] == "%" else f"{float(f'{number:.{_SIGNIFICANT}g}'):g}"
    return f"{text}{size[2]}{size[3]}"


def first_line(text: str) -> str:
    """Return the first line of the last summary in a text, unwrapped and without the name of the tool."""
    blocks = [block.strip() for block in re.split(r"\n\s*\n", text)]
    titles = [block for block in blocks if block.startswith(_TITLE)]
    lines = [line for line in text.splitlines() if line.startswith(_TITLE)]
    shown = titles[-1] if titles else "\n".join(lines[-1:])
    words = " ".join(shown.split()).removeprefix(_TITLE)
    return re.split(r" (?:next: |also |filling, )", words)[0]


def complaints(screen: Screen, text: str) -> Iterator[str]:
    """Say what is wrong with a screen.

    Args:
        screen: The words that must stand there, and those that must not.
        text: The text that stood there.
    """
    line, whole = first_line(text), " ".join(of_the_tool(text).split())
    for pattern in screen.first:
        if not re.search(pattern, line):
            yield f"the first line lacks {pattern!r}"
    for pattern in screen.says:
        if not re.search(pattern, whole):
            yield f"the screen lacks {pattern!r}"
    for pattern in screen.never:
        found = re.search(pattern, whole)
        if found:
            yield f"the screen says {found[0]!r}"
    if "Traceback" in text and "msmemscope/" in text:
        yield "a traceback of the tool"


def as_golden(screen: Screen, text: str, folder: Path) -> str:
    """Return the golden file of a screen: what is true, what was typed, what was seen."""
    command = " ".join(filter(None, ("msmemscope", shlex.join(screen.options), "python", shlex.join(screen.words))))
    if screen.way is Way.SNAPSHOT:
        command = f"msmemscope summary {screen.words[0].removesuffix('.xz')}"
    elif screen.way is Way.ALONE:
        command = f"python {shlex.join(screen.words)}; msmemscope summary out"
    where = f" (virtual NPU, {screen.memory or 'default'} each, {screen.devices} cards)" if screen.npu else ""
    head = [f"True: {screen.truth}", f"$ {command}{where}"]
    head += [f"How: {screen.way.value}"] if screen.way not in {Way.ENDED, Way.ALONE, Way.SNAPSHOT} else []
    head += [f"Wrong: {screen.wrong}"] if screen.wrong else []
    head += [f"Varies: {screen.varies}"] if screen.varies else []
    return "\n".join(head) + "\n" + "-" * 80 + "\n" + normalised(text, folder, is_exact=screen.way is Way.SNAPSHOT)


def main() -> int:
    """Run the screens whose names contain a word; 1 if one is wrong that is not known to be."""
    words = sys.argv[1:]
    is_written = "--write" in words
    names = [word for word in words if word != "--write"]
    chosen = [one for one in SCREENS if not names or any(name in one.name for name in names)]
    unexpected = 0
    for one in chosen:
        with scratch_folder() as folder:
            try:
                text = screen_of(one, folder)
            except NotInstalledError as missing:
                sys.stdout.write(f"left out  {one.name}: {missing}\n")
                continue
            found = list(complaints(one, text))
            golden = as_golden(one, text, folder)
        if is_written:
            one.golden.parent.mkdir(exist_ok=True)
            one.golden.write_text(golden, encoding="utf-8")
            state = "written"
        else:
            kept = one.golden.read_text(encoding="utf-8") if one.golden.exists() else ""
            state = "same" if kept == golden else "varies" if one.varies else "other"
        unexpected += bool(found) != bool(one.wrong)
        judged = ("known" if one.wrong else "WRONG") if found else ("mended" if one.wrong else "right")
        sys.stdout.write(f"{judged:6} {state:8} {one.name}\n         {first_line(text)}\n")
        sys.stdout.writelines(f"         ! {complaint}\n" for complaint in found)
        sys.stdout.flush()
    return int(unexpected > 0)


if __name__ == "__main__":
    raise SystemExit(main())
