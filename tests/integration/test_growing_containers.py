"""Containers of a program without torch that grow are named with their variable, and those with a bound are not."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final

import pytest

from tests.support import tool
from tests.support.warm import run_observed

if TYPE_CHECKING:
    from pathlib import Path

SERVER: Final = """
import asyncio, collections, functools, signal, sys, time

{before}

class Server:
    def __init__(self):
        self.block_ids = []
        self.latest = collections.deque(maxlen=200)

def serve(server, number):
    {work}

def main():
    server = Server()
    for number in range(1500):
        serve(server, number)
        time.sleep(0.0007)

main()
"""
KEPT: Final = {
    "list": (
        "",
        "server.block_ids.append(str(number).zfill(60_000))",
        "Server.block_ids, from main.server (list of str",
    ),
    "dict": (
        "answers = {}",
        "answers[number] = [float(number + place) for place in range(1_480)]",
        "__main__.answers (dict of int to list",
    ),
    "deque": (
        "waiting = collections.deque()",
        "waiting.append(bytes([number % 256]) * 60_000)",
        "__main__.waiting (deque of bytes",
    ),
    # When main() has returned, only a frame of threading leads to it.
    "list that a thread of a library has": (
        "import threading\ndef remind(what): timer = threading.Timer(60, len, [what]); timer.daemon = True; timer.start()",
        "number or remind(server.block_ids); server.block_ids.append(str(number).zfill(60_000))",
        "Server.block_ids, from main.server (list of str",
    ),
    "function cache": (
        "@functools.lru_cache(maxsize=None)\ndef text_of(number): return str(number).zfill(60_000)",
        "text_of(number)",
        "__main__.text_of(cache) (dict of int to str",
    ),
}
BOUNDED: Final = {
    "deque": ("", "server.latest.append(str(number).zfill(60_000))"),
    "not full": (
        "class Buffer:\n    def __init__(self): self._maxsize, self.kept = 3000, []\nbuffer = Buffer()",
        "buffer.kept.append(str(number).zfill(60_000))",
    ),
    "cleared": (
        "answers = {}",
        "answers.clear() if len(answers) > 150 else answers.update({number: str(number).zfill(60_000)})",
    ),
}


def first_screen(folder: Path, before: str, work: str) -> str:
    """The first part of a run's summary, as one line."""
    program = folder / "server.py"
    program.write_text(SERVER.format(before=before, work=work))
    output = folder / "out"
    run = tool.run([*tool.TOOL, f"--output={output}", "--", sys.executable, program], output=output)
    assert run.returncode == 0, run.stderr
    return " ".join(run.stderr.split("\n\n")[0].split())


@pytest.mark.parametrize("name", KEPT)
def test_a_container_that_grows_is_named(tmp_path: Path, name: str) -> None:
    """With its variable, the type of its entries, their number and their size."""
    before, work, held_by = KEPT[name]
    screen = first_screen(tmp_path, before, work)
    assert f"held by {held_by}" in screen, screen
    found = re.search(r"\+([\d,]+) in ([\d.]+) s, ([\d,]+) now, ([\d.]+) KiB each\)", screen)
    assert found is not None, screen
    grown, entries = (int(found[group].replace(",", "")) for group in (1, 3))
    assert grown < entries <= 1500
    assert grown > 600
    assert float(found[4]) == pytest.approx(58.6, rel=0.1)
    # About the first 8 MiB of such a program are not recorded: by how many samples that is known, chance decides.
    assert float(re.findall(r"memory: ([\d.]+) MiB", screen)[0]) == pytest.approx(1500 * 58.6 / 1024, rel=0.25)
    assert "Remove its entries when they are done with" in screen


@pytest.mark.parametrize("name", BOUNDED)
def test_a_container_with_a_bound_is_not(tmp_path: Path, name: str) -> None:
    """Neither one with a limit nor one that the program clears now and then."""
    screen = first_screen(tmp_path, *BOUNDED[name])
    assert "no steady growth of host memory" in screen, screen


WORKERS: Final = """
import multiprocessing, os, sys, time

def own_memory():
    fields = dict(line.split(":") for line in open("/proc/self/smaps_rollup").read().splitlines()[1:])
    return sum(int(fields[name].split()[0]) for name in ("Private_Dirty", "Private_Clean")) / 1024

class Scenes:
    def __init__(self, count):
        self.records = [[float(scene + place) for place in range(30)] for scene in range(count)]

def read(scenes, share):
    total = 0.0
    for number in range(0, int(len(scenes.records) * share)):
        total += sum(scenes.records[number])
        if number % 1000 == 0:
            bytes([number % 256]) * 3_000_000
            time.sleep(0.02)
    print(own_memory(), flush=True)

def main():
    scenes = Scenes(100_000)
    context = multiprocessing.get_context("fork")
    worker = context.Process(target=read, args=(scenes, float(sys.argv[1])))
    worker.start()
    worker.join()

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("share", ["1.0", "0.1"])
def test_a_worker_that_copies_by_reading_is_said_to(tmp_path: Path, share: str) -> None:
    """The truth is its own memory by the kernel's word. One that reads a tenth copies little."""
    program = tmp_path / "workers.py"
    program.write_text(WORKERS)
    output = tmp_path / "out"
    run = tool.run([*tool.TOOL, f"--output={output}", "--", sys.executable, program, share], output=output)
    assert run.returncode == 0, run.stderr
    screen = " ".join(run.stderr.split("\n\n")[0].split())
    if share == "0.1":
        assert "copied" not in screen
        return
    found = re.search(r"host memory: ([\d.]+) MiB on cpu, copied from the process that forked this one", screen)
    assert found is not None, screen
    assert float(found[1]) == pytest.approx(float(run.stdout), rel=0.15)
    assert "held by Scenes.records, from main.scenes (list of list, 100,000 entries" in screen


TRACED: Final = """
import faulthandler, sys, torch
from msmemscope import _native

faulthandler.dump_traceback_later(60, exit=True)
looks, seen = [], set()

def nothing():
    pass

def allocate():
    for _ in range(300):
        torch.ones(9)

def look():
    looks.append(1)
    if len(looks) < 4:
        _native.await_container_look(0, look)
    allocate()
    nothing()

sys.set{trace}(lambda frame, event, argument: seen.add(frame.f_code.co_name))
_native.await_container_look(0, look)
for _ in range(20):
    allocate()
sys.set{trace}(None)
print(len(looks), seen & {{"allocate", "look", "nothing"}})
"""


@pytest.mark.torch
@pytest.mark.parametrize("trace", ["profile", "trace"])
def test_a_look_that_takes_longer_than_the_pause_behind_it(tmp_path: Path, trace: str) -> None:
    """Under a profiler or debugger of the program, too: it is not told of the look, and the program comes to its end."""
    run = run_observed(["-c", TRACED.format(trace=trace)], output=tmp_path / "output")
    assert (run.returncode, run.stdout) == (0, "4 {'allocate'}\n"), run.stderr
