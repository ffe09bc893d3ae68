"""First screens of programs whose truth is known: what must stand there, what must not, and the screen as it was looked at.

After a change that is meant: `python -m tests.first_screens.measure --write NAMES`, and read the difference.
"""

from __future__ import annotations

import pytest

from tests.first_screens.catalogue import SCREENS
from tests.first_screens.measure import as_golden, complaints, first_line, normalised, of_the_tool
from tests.first_screens.running import scratch_folder, screen_of
from tests.first_screens.screen import GOLDEN, PROGRAMS, SNAPSHOTS, Screen, Way
from tests.support.ascend import NotInstalledError
from tests.support.nightly import nightly

CASES = [pytest.param(one, id=one.name, marks=() if one.by_day else nightly) for one in SCREENS]


def test_the_catalogue_is_whole() -> None:
    """Each screen has a name of its own, a truth and a golden file; no golden file and no program is left over."""
    assert len({one.name for one in SCREENS}) == len(SCREENS)
    assert [one.name for one in SCREENS if not one.truth or not (one.first or one.says or one.never)] == []
    assert {one.golden for one in SCREENS} == {*GOLDEN.glob("*/*.txt")}
    words = {word.removesuffix(".py") for one in SCREENS for word in one.words}
    programs = {path.stem for path in PROGRAMS.glob("*/*.py")} - {"dev"}
    assert sorted(programs - words) == []
    snapshots = {one.words[0] for one in SCREENS if one.way is Way.SNAPSHOT}
    assert snapshots == {path.name for path in SNAPSHOTS.iterdir()}


def test_what_differs_from_run_to_run_is_left_out() -> None:
    """Paths, times, process ids and the last digits of sizes."""
    with scratch_folder() as folder:
        text = (
            f"a warning of a library\nmsmemscope: warning: running as root\n\nmsmemscope: leak: 384 KiB on cpu at {folder}/x.py(3)\n"
            "next: msmemscope analyze leaks out/msmemscope_123_20260101000000_ascend\n\n  ▁▂█ 0.21 s\n  aten.mm    12.34 MiB  3\n"
        )
        assert normalised(text, folder) == (
            "msmemscope: leak: 380 KiB on cpu at x.py(3)\nnext: msmemscope analyze leaks out/msmemscope_RUN_ascend\n\n"
            "  [curve] T s\n  aten.mm  12 MiB  3\n"
        )


def test_a_screen_is_judged_by_its_words() -> None:
    """By the first line, by all lines, and by what must not be there; lines of the program do not count."""
    screen = Screen(
        "more/x", ("x.py",), "a leak", first=("^leak: ", "held by kept"), says=("npu:0",), never=("fragment",)
    )
    text = "fragmentation?\n\nmsmemscope: leak: 1 MiB on cpu,\n    held by kept\nnext: msmemscope analyze leaks out\n\nPeak on npu:0\n"
    assert of_the_tool(text).startswith("msmemscope: leak")
    assert first_line(text) == "leak: 1 MiB on cpu, held by kept"
    assert list(complaints(screen, text)) == []
    assert len(list(complaints(screen, "msmemscope: nothing found: fragments\n"))) == 4


def _words(golden: str) -> list[str]:
    """The words on a screen, wherever its lines are broken.

    Whether host memory was judged depends on the speed of the program: its figures are a millisecond apart at least.
    """
    return " ".join(golden.split()).replace("no steady growth of host memory, ", "").split()


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("screen", CASES)
def test_the_first_screen_is_as_it_was_looked_at(screen: Screen) -> None:
    """If the catalogue calls a screen wrong, it is still wrong. A screen that is right now must lose that mark."""
    with scratch_folder() as folder:
        try:
            text = screen_of(screen, folder)
        except NotInstalledError as missing:
            pytest.skip(str(missing))
        found = list(complaints(screen, text))
        assert bool(found) == bool(screen.wrong), (found, screen.wrong, text)
        if not screen.varies:
            seen = as_golden(screen, text, folder)
            assert _words(seen) == _words(screen.golden.read_text(encoding="utf-8")), seen
