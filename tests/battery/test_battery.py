"""Programs of many kinds, bare and under the tool: their user sees the same. docs/programs.md lists them."""

from __future__ import annotations

import functools
import resource
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.battery import running
from tests.battery.catalogue import CATALOGUE, Place, Program
from tests.support.ascend import NotInstalledError
from tests.support.nightly import NIGHT, nightly

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.targets import Builder

TOGETHER = [program for program in CATALOGUE if program.command[0] == "with_torch.py"]
"""Programs that share the import of torch."""


ENDED_BY_THE_KERNEL = (-signal.SIGKILL, -signal.SIGSEGV)
"""Statuses of programs with a known difference: a forbidden system call, or a clock that was taken away."""

ON_THE_NPU_BY_DAY = {
    ("Processes", "shell"), ("Coroutines", "makecontext"), ("Signals", "interrupted"), ("Ends", "return"),
    ("Ends", "fault"), ("Surroundings", "daemonised"),
}  # fmt: skip
"""Native programs that run on the virtual NPU by day: a few of each kind, since nothing but the allocator differs."""

FOR_THE_NIGHT = ("Processes", "Ends", "Coroutines", "Instruments", "Threads", "Signals")
"""Families that only make test-nightly runs on the virtual NPU."""


def _ordinary(programs: list[Program]) -> list[Program]:
    return [program for program in programs if NIGHT or not program.nightly]


def _options(place: Place, *, with_torch: bool) -> list[tuple[str, tuple[str, ...]]]:
    """Sets of options: all at night; else default options for torch on the CPU, and nearly every option for the rest."""
    sets = list(running.OPTIONS.items())
    return sets if NIGHT else sets[:1] if with_torch and place is Place.CPU else sets[1:2]


def _alone() -> Iterator[object]:
    for program in CATALOGUE:
        if program in TOGETHER:
            continue
        for place in program.places:
            is_by_day = place is Place.CPU or (program.family, program.name) in ON_THE_NPU_BY_DAY
            marks = [nightly] if program.nightly or not (program.with_torch or is_by_day) else []
            if program.with_torch:
                marks.append(pytest.mark.torch)
            name = f"{program.family}, {program.name}{' with torch' if program.with_torch else ''}, {place.value}"
            yield pytest.param(program, place, id=name, marks=marks)


ATTEMPTS: Final = 10
LOST_POOL: Final = ("Invalid thread pool", "terminate called recursively")
"""Torch aborts with this in some children of a fork, with the tool and without it: such a program is run again.

Where two threads abort at once, nothing says why.
"""


def _families() -> Iterator[object]:
    for family in dict.fromkeys(program.family for program in TOGETHER):
        for place in Place:
            is_for_night = place is Place.NPU and family in FOR_THE_NIGHT
            reason = "run by make test-nightly: takes long, and torch's thread pool does not always survive a fork"
            mark = pytest.mark.skipif(is_for_night and not NIGHT, reason=reason)
            yield pytest.param(family, place, id=f"{family}, {place.value}", marks=mark)


@pytest.fixture(autouse=True)
def no_core_files() -> Iterator[None]:
    """Programs that crash on purpose leave no core file."""
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, limits)


def _folder(parent: Path, name: str) -> Path:
    """A new folder of the same length for each run."""
    folder = parent / name / "current"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("program, place", list(_alone()))
def test_a_program(program: Program, place: Place, target_builder: Builder, tmp_path: Path) -> None:
    """The same status and the same output, with each set of options."""
    if lacks := running.missing(program):
        pytest.skip(lacks)
    try:
        bare = running.see_native(program, place, target_builder, _folder(tmp_path, "bare"), None)
    except NotInstalledError as not_installed:
        pytest.skip(str(not_installed))
    for number, (name, options) in enumerate(_options(place, with_torch=program.with_torch)):
        observed = running.see_native(program, place, target_builder, _folder(tmp_path, f"run{number}"), options)
        found = running.differences(bare, observed)
        if found and program.differs:
            # The kernel may end the program, and nothing more is known. Whether it does depends on the kernel.
            assert observed.status in ENDED_BY_THE_KERNEL, found
            continue
        assert not found, "\n".join([f"with {name}:", *found])


def _together(families: tuple[str, ...], place: Place) -> list[Program]:
    """The programs with torch of some families that run here."""
    wanted = _ordinary([program for program in TOGETHER if program.family in families and place in program.places])
    return [program for program in wanted if not running.missing(program)]


@functools.cache
def _seen(families: tuple[str, ...], place: Place, options: tuple[str, ...] | None) -> dict[str, running.Seen]:
    """The results of the programs with torch of some families, in one run; bare if options are None."""
    seen: dict[str, running.Seen] = {}
    missing = _together(families, place)
    for _ in range(ATTEMPTS):
        with tempfile.TemporaryDirectory() as scratch:
            folder = _folder(Path(scratch), "bare" if options is None else "run0")
            seen |= running.see_together(missing, place, folder, options)
        missing = [one for one in missing if any(text in seen[one.command[-1]].stderr for text in LOST_POOL)]
        if not missing:
            break
    return seen


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("family, place", list(_families()))
def test_programs_with_torch(family: str, place: Place) -> None:
    """The same for each program of a family, in processes that are forked after torch was imported.

    By day one run with the tool and one without have the programs of all families.
    """
    families = (family,) if NIGHT else tuple(dict.fromkeys(program.family for program in TOGETHER))
    try:
        bare = _seen(families, place, None)
    except NotInstalledError as not_installed:
        pytest.skip(str(not_installed))
    failed: list[str] = []
    for name, options in _options(place, with_torch=True):
        observed = _seen(families, place, options)
        failed += [
            "\n".join([f"{identity} with {name}:", *found])
            for identity in (program.command[-1] for program in _together((family,), place))
            if (found := running.differences(bare[identity], observed[identity]))
        ]
    assert not failed, "\n".join(failed)
