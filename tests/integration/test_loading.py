"""Libraries that come while the program runs: the loader does what it does without us, and their calls are seen."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from msmemscope.model.events import EventKind
from tests.support.nightly import NIGHT
from tests.support.recordings import count, events_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.conftest import RunUnderTool
    from tests.support.targets import Builder
    from tests.support.tool import ToolRun

ROUNDS = 1000 if NIGHT else 200
FULL_RELRO = ("-Wl,-z,now", "-Wl,-z,relro")


def assert_observed(run: ToolRun) -> None:
    """Assert that the one capture has what the program reports."""
    assert run.returncode == 0, run.stderr
    events = events_of(run.capture)
    assert count(events, EventKind.MALLOC) == int(run.report["allocs"])
    assert count(events, EventKind.FREE) == int(run.report["frees"])


def test_loading_in_several_threads_at_once(target_builder: Builder, run_under_tool: RunUnderTool) -> None:
    """An image that one thread is relocating is not touched by another one's dlopen."""
    race = target_builder.part("loading/race.c", "race", "-pie", "-ldl")
    heavy = target_builder.part("loading/heavy_libc10.c", "libc10.so", "-Wl,-soname,libc10.so", *FULL_RELRO)
    other = target_builder.part("loading/opens.c", "libopens.so")
    assert_observed(run_under_tool([race, heavy, other, str(ROUNDS)]))


@pytest.fixture
def libraries(target_builder: Builder, tmp_path: Path) -> Path:
    """A folder with `left` and `right`. Each has a libnamed.so that knows which one it is."""
    for side in ("left", "right"):
        (tmp_path / side).mkdir()
        # Without a name of its own a library is known by the names under which it was asked for only.
        library = target_builder.part("loading/named.c", "libnamed.so", f'-DWHICH="{side}"')
        shutil.copy(library, tmp_path / side)
    return tmp_path


RUNPATH, RPATH = "--enable-new-dtags", "--disable-new-dtags"


@pytest.mark.parametrize(("tags", "expected"), [(RUNPATH, ["right"]), (RPATH, ["left"])], ids=["runpath", "rpath"])
def test_the_callers_own_search_path(
    target_builder: Builder, run_under_tool: RunUnderTool, libraries: Path, tags: str, expected: list[str]
) -> None:
    """LD_LIBRARY_PATH comes before DT_RUNPATH and after DT_RPATH."""
    program = target_builder.part(
        "loading/identity.c", "identity", "-pie", f"-Wl,{tags},-rpath,{libraries / 'left'}", "-ldl"
    )
    run = run_under_tool([program, "libnamed.so"], variables={"LD_LIBRARY_PATH": str(libraries / "right")})
    assert run.stdout.splitlines() == expected


@pytest.mark.parametrize("tags", [RUNPATH, RPATH], ids=["runpath", "rpath"])
@pytest.mark.parametrize(
    "names",
    [
        ["libnamed.so"],
        ["@libnamed.so", "libnamed.so"],
        ["@{left}/libnamed.so", "libnamed.so", "@libnamed.so"],
        ["@$ORIGIN/libnamed.so"],
        ["$ORIGIN/libnamed.so"],
        ["@{plugin}"],
        ["{plugin}"],
        ["@libnamed.so", "{plugin}"],
    ],
    ids=" ".join,
)
def test_the_loader_searches_for_whoever_calls(
    target_builder: Builder,
    run_under_tool: RunUnderTool,
    run_alone: RunUnderTool,
    libraries: Path,
    tags: str,
    names: Sequence[str],
) -> None:
    """A library's own paths, names that it has asked for before, what it passes on to the libraries that it opens."""
    plugin = target_builder.part("loading/needs_named.c", "libplugin.so", f"-L{libraries / 'left'}", "-l:libnamed.so")
    opener = target_builder.part("loading/opens.c", "libopens.so", f"-Wl,{tags},-rpath,{libraries / 'right'}", "-ldl")
    for side in ("left", "right"):
        shutil.copy(opener, libraries / side)
    program = target_builder.part(
        "loading/identity.c", "identity", "-pie", f"-Wl,{RUNPATH},-rpath,{opener.parent}", "-ldl"
    )
    command = [program, *(name.format(left=libraries / "left", plugin=plugin) for name in names)]
    observed, alone = run_under_tool(command), run_alone(command)
    assert observed.stdout == alone.stdout
    assert observed.returncode == alone.returncode == 0


@pytest.mark.parametrize("table", ["gnu", "sysv"])
@pytest.mark.parametrize("mode", ["lazy", "now"])
def test_functions_of_one_name_in_several_libraries(
    target_builder: Builder, run_under_tool: RunUnderTool, mode: str, table: str
) -> None:
    """Each caller reaches its own, also when there are more of them than a hook can keep apart; what is not there stays so."""
    plugins = [
        target_builder.part(
            "loading/same_name.c",
            f"libplugin_{number}.so",
            f"-DNUMBER={number}",
            f"-Wl,-z,{mode},--hash-style={table}",
        )
        for number in range(1, 13)
    ]
    program = target_builder.part("loading/plugins.c", "plugins", "-pie", "-ldl")
    run = run_under_tool([program, mode, *plugins])
    assert run.returncode == 0, run.stderr
    assert run.reports == [{"set_device": f"{number}07", "has_init": "0"} for number in range(1, 13)]


def test_a_library_without_start_up_code(target_builder: Builder, run_under_tool: RunUnderTool) -> None:
    """It does not tell that it came; dlsym finds it."""
    library = target_builder.part("loading/constructor.c", "libc10.so", "-nostartfiles")
    program = target_builder.program("dlopen_late")
    assert_observed(run_under_tool([program, library]))


def test_what_constructors_allocate(target_builder: Builder, run_under_tool: RunUnderTool) -> None:
    """A library is patched before its own constructors run; one of them may wait for a thread that is observed."""
    first = target_builder.part("loading/constructor.c", "libc10.so")
    second = target_builder.part("loading/constructor.c", "libc10.so", "-DWAITS")
    program = target_builder.part("loading/waits_in_constructor.c", "waits", "-pie", "-rdynamic", "-ldl")
    assert_observed(run_under_tool([program, first, second], timeout_s=60))
