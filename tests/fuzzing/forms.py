"""The forms that can be fuzzed: how an input of each form is made, and what is done with it."""

from __future__ import annotations

import random
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msmemscope.formats.event_log.archive.contents import ARCHIVE_SUFFIX
from msmemscope.formats.event_log.history_files import moment_name
from msmemscope.questions import QUESTIONS
from tests.fakes.event_log_builder import ATEN_END, ATEN_START, STEP, EventLogBuilder
from tests.fuzzing import values
from tests.fuzzing.archives import archived_log
from tests.fuzzing.event_logs import damaged_log, random_run
from tests.fuzzing.inputs import LOAD, FuzzInput, kept_inputs
from tests.fuzzing.moments import moment
from tests.fuzzing.snapshots import snapshot
from tests.fuzzing.tables import csv_dump, sqlite_dump

if TYPE_CHECKING:
    from collections.abc import Callable

    Commands = tuple[tuple[str, ...], ...]
    Files = dict[str, bytes]

_CAPTURE: Final = "msmemscope_4242_20240101120000_ascend"
_HEALTHY: Final = "msmemscope_1_20240101120000_ascend"
_ANALYSES: Final = (
    *((name,) for name in QUESTIONS),
    ("leaks", "--mark=test"), ("leaks", "--mark=test", "--start-index={number}"),
    ("inefficient", "--idle-threshold={number}", "--mem-size={number}"), ("inefficient", "--write-back", "--idle-threshold=1"),
    ("peak", "--at={number}"), ("peak", "--device=npu:{number}", "--at={number}"), ("peak", "--device=cpu"), ("operators", "--level=kernel"),
    ("operators", "--level=op,kernel", "--csv={0}/changes.csv"), ("oom", "--limit={number}"), ("growth", "--significance=0.5", "--minimum-size={number}"),
)  # fmt: skip
_REPORT_SHARE: Final = 0.1
"""Of the analyses, those that are all of them as one page."""
_RECOVERIES: Final = (
    (), (), ("--data-format=db",), ("--data-format=csv", "--call-stack=c,python"), ("--data-format=db", "--call-stack=c:5"),
)  # fmt: skip


def event_log(rng: random.Random) -> FuzzInput:
    """A capture, by itself or beside a healthy one."""
    files = damaged_log(rng, _healthy_log()) if rng.random() < 0.15 else random_run(rng)
    name = _CAPTURE if rng.random() < 0.98 else "other"
    below = {f"{name}/event_log/{file}": content for file, content in files.items()}
    path = f"{{0}}/{name}"
    choice = rng.random()
    if choice < 0.12:
        return FuzzInput("event log", below, (("events", path, *rng.choice(((), ("--definitions",), ("--limit=3",)))),))
    if choice < 0.25:
        commands: Commands = (("recover", path, *rng.choice(_RECOVERIES)),)
        if rng.random() < 0.3:  # written text must be readable
            commands = (*commands, _analysis(rng, path))
        return FuzzInput("event log", below, commands)
    if choice < 0.3:
        below |= {f"{_HEALTHY}/event_log/{file}": content for file, content in _healthy_log().items()}
        command = rng.choice((("recover", "{0}"), ("analyze", "leaks", "{0}"), (LOAD, "{0}")))
        return FuzzInput("event log", below, (command,))
    return FuzzInput("event log", below, (_command(rng, path, below),))


def history(rng: random.Random) -> FuzzInput:
    """A capture whose moments are damaged, or other tables."""
    files = {f"{_CAPTURE}/event_log/{file}": content for file, content in _healthy_log().items()}
    for number in range(rng.randrange(1, 14)):
        content = moment(rng, number)
        if rng.random() < 0.5:
            content = values.damaged(rng, content)
        files[f"{_CAPTURE}/history/{moment_name(10**18 + number * 10**12)}"] = content
    options = rng.choice(((), ("--json",), ("--minimum-size=1",)))
    return FuzzInput("history", files, (("analyze", "history", f"{{0}}/{_CAPTURE}", *options),))


def archive(rng: random.Random) -> FuzzInput:
    """The archive of a capture: damaged, or with other members than it had."""
    content = archived_log(rng, damaged_log(rng, _healthy_log()) if rng.random() < 0.15 else random_run(rng))
    files = {f"{_CAPTURE}{ARCHIVE_SUFFIX}": content}
    path = "{0}/" + next(iter(files))
    choice = rng.random()
    if choice < 0.15:
        return FuzzInput("archive", files, (("events", path, *rng.choice(((), ("--definitions",)))),))
    if choice < 0.3:
        return FuzzInput("archive", files, (("recover", path, *rng.choice(_RECOVERIES)),))
    if choice < 0.4:
        return FuzzInput("archive", files, (("export", path, "--to=archive", "-o", "{0}/again"),))
    return FuzzInput("archive", files, (_command(rng, path, files),))


def csv_file(rng: random.Random) -> FuzzInput:
    """A CSV dump."""
    return _file(rng, "csv", f"{_file_name(rng)}.csv", csv_dump(rng))


def database(rng: random.Random) -> FuzzInput:
    """A DB dump."""
    return _file(rng, "db", f"{_file_name(rng)}.db", sqlite_dump(rng))


def torch_snapshot(rng: random.Random) -> FuzzInput:
    """A memory snapshot of torch."""
    return _file(rng, "snapshot", f"{_file_name(rng)}.pickle", snapshot(rng))


def other_file(rng: random.Random) -> FuzzInput:
    """Files of ours that are no input, and anything else."""
    name, content = rng.choice(_OTHER_FILES)
    if rng.random() < 0.9:
        content = values.damaged(rng, content)
    if rng.random() < 0.5:
        name = rng.choice(
            (f"{_CAPTURE}/event_log/process.header", f"{_CAPTURE}/device_0/dump/memscope_dump_1.csv", "x.csv")
        )
    target = "{0}/" + name if rng.random() < 0.7 else "{0}"
    command = rng.choice((("recover", target), ("events", target), _command(rng, target, {})))
    return FuzzInput("other", {name: content}, (command,))


def kept(rng: random.Random) -> FuzzInput:
    """An input that once failed, with more damage, and with other commands."""
    known = _kept()
    if not known:
        return event_log(rng)
    chosen = rng.choice(known)
    files = dict(chosen.files)
    name = rng.choice(sorted(files))
    if name.endswith(".segment") and rng.random() < 0.8:
        files = damaged_log(rng, files)
    else:
        files[name] = values.damaged(rng, files[name])
    if rng.random() < 0.5 or not files:
        return FuzzInput("kept", files, chosen.commands)
    name = min(files)
    target = "{0}/" + (name.partition("/")[0] if "/event_log/" in name else name)
    return FuzzInput("kept", files, (_command(rng, target, files),))


FORMS: Final[dict[str, Callable[[random.Random], FuzzInput]]] = {
    "event log": event_log,
    "archive": archive,
    "history": history,
    "csv": csv_file,
    "db": database,
    "snapshot": torch_snapshot,
    "other": other_file,
    "kept": kept,
}
"""How an input of each form is made."""

SHARES: Final = {
    "event log": 0.17,
    "archive": 0.1,
    "history": 0.03,
    "csv": 0.2,
    "db": 0.15,
    "snapshot": 0.2,
    "other": 0.05,
    "kept": 0.1,
}
"""The share of each form in all inputs."""


KEPT: Final = "corpus"
"""In the place of a form: the inputs of the corpus as they are, counted in the order of their names."""


def make_input(form: str, number: int) -> FuzzInput:
    """Returns the input of a form with a number: the same one each time, for as long as the corpus is the same."""
    if form == KEPT:
        return _kept()[number]
    return FORMS[form](random.Random(f"{form} {number}"))  # noqa: S311 - not for secrets


def _file_name(rng: random.Random) -> str:
    return "memscope_dump_20240101120000" if rng.random() < 0.95 else rng.choice(_FILE_NAMES)


def _file(rng: random.Random, form: str, name: str, content: bytes) -> FuzzInput:
    files = {name: content}
    return FuzzInput(form, files, (_command(rng, "{0}/" + name, files),))


def _command(rng: random.Random, path: str, files: Files) -> tuple[str, ...]:
    choice = rng.random()
    if choice < 0.4:
        return (LOAD, path)
    if choice < 0.9 or not files:
        return _analysis(rng, path)
    files["other.csv"] = _seed_csv()
    sides = [path, rng.choice(("{0}/other.csv", path))]
    rng.shuffle(sides)
    step = rng.choice(("", "", "", ":step=1", ":step=2", ":step=0", ":step=99"))
    level = rng.choice(((), ("--level=kernel",), ("--level=op,kernel",), ("--json",), ("--fail-on=peak>5%",)))
    return ("compare", sides[0] + step, sides[1], "--output={0}/out", *level)


def _analysis(rng: random.Random, path: str) -> tuple[str, ...]:
    if rng.random() < _REPORT_SHARE:
        return ("report", path, "-o", "{0}/report.html")
    kind, *options = rng.choice(_ANALYSES)
    options = [option.replace("{number}", str(rng.choice((0, 1, 2, 3, rng.randrange(80))))) for option in options]
    return ("analyze", kind, path, *options, *rng.choice(((), ("--json",))))


@lru_cache
def _kept() -> list[FuzzInput]:
    return list(kept_inputs().values())


@lru_cache
def _seed_csv() -> bytes:
    return csv_dump(random.Random(1))  # noqa: S311 - not for secrets


@lru_cache
def _healthy_log() -> Files:
    """A small capture with something of everything in it, as the recorder writes it."""
    builder = EventLogBuilder(Path(), segment_bytes=0)
    name = builder.string("torch._ops.aten.add.Tensor")
    stack = builder.python_stack((builder.code("train.py", "step", 7, b"\x80\x01\xd8", 2), 2))
    native = builder.native_stack(0x1010, 0x2020)
    builder.module(sys.executable, 0x1000, 0x3000, load_bias=0x1000)
    builder.fact("setting.analysis", "leaks,inefficient,decompose")
    builder.fact("argument", "train.py")
    for step in range(1, 4):
        builder.add(ATEN_START, name_id=name, device=0)
        block = builder.malloc(
            512 * step, 512, pool=3, device=0, name_id=name, python_stack_id=stack, native_stack_id=native
        )
        builder.access(block, 512 * step, pool=3, device=0, name_id=name)
        builder.add(ATEN_END, name_id=name, device=0)
        if step % 2:
            builder.free(block, 512 * step, 512, pool=3, device=0, segment=1)
        builder.add(STEP, size=step, device=0)
    builder.kept[0] = builder.events[0][1:3]
    return builder.contents()


_FILE_NAMES: Final = ("a b", "a\udcff", "[bold]", "%s?mode=rw", "a\nb", "\x1b[31m", "step=1:step=2", "é", "a" * 200)
_OTHER_FILES: Final = (
    ("config.json", b'{"analysisType": 1, "settings": {"output": "x"}}'),
    (
        "python_trace_1_20240101120000.csv",
        b"FuncInfo,StartTime(ns),EndTime(ns),Thread Id,Process Id\nf.py(1): f,1,2,3,4\n",
    ),
    ("memory_compare_1.csv", b",,,Base,Compare\nEvent,Name,Device Id\nOP_LAUNCH,add,0,1,2,1\n"),
    ("notes.txt", b"hello\n"),
    ("empty", b""),
    ("pickle", b"\x80\x05]."),
    ("archive.zip", b"PK\x03\x04" + bytes(30)),
    ("packed.gz", b"\x1f\x8b\x08" + bytes(30)),
    ("other.db", b"SQLite format 3\0" + bytes(200)),
    ("segment", b"MSEVENTS" + bytes(5000)),
)
