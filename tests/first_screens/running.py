"""Runs a program in the way that its screen asks for, and returns what stands on the terminal."""

from __future__ import annotations

import contextlib
import lzma
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.first_screens.screen import SNAPSHOTS, Screen, Way
from tests.support import tool
from tests.support.ascend import virtual_npu_environment
from tests.support.targets import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PAGE: Final = 4096
_ENOUGH_S: Final = 0.5
"""Seconds after which all that a program had done is in its log."""
_WAIT_S: Final = 60.0


def screen_of(screen: Screen, folder: Path) -> str:
    """Run a program; returns what stands on the terminal at last, without what the program printed on stdout.

    Args:
        screen: Which, and how.
        folder: An empty one, in which it runs.

    Raises:
        NotInstalledError: There is no virtual NPU.
    """
    if screen.way is Way.SNAPSHOT:
        snapshot = SNAPSHOTS / screen.words[0]
        (folder / snapshot.stem).write_bytes(lzma.decompress(snapshot.read_bytes()))
        return _asked("summary", snapshot.stem, folder=folder)
    shutil.copytree(screen.folder, folder, dirs_exist_ok=True)
    if screen.way is Way.ALONE:
        run = tool.run([sys.executable, *screen.words], output=folder, folder=folder, variables=_variables(screen))
        output = "out" if (folder / "out").exists() else "memscopeDumpResults"
        return f"{run.stderr}{_asked('summary', output, folder=folder)}"
    if screen.requests or screen.way in {Way.INTERRUPTED, Way.TERMINATED, Way.RUNNING}:
        return _while_it_runs(screen, folder)
    run = tool.run(_command(screen), output=folder, folder=folder, variables=_variables(screen), timeout_s=400)
    if screen.way is Way.ENDED:
        return run.stderr
    damage = {Way.FLIPPED: _flipped, Way.CUT: _cut, Way.ZEROED: _zeroed}[screen.way]
    _damage(folder / "out", damage)
    return _asked("summary", "out", folder=folder)


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make an empty folder whose path is always as long: lines that name it break at the same place."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="screen_") as folder:
        yield Path(folder)


def _command(screen: Screen, *more: str) -> list[str]:
    output = ["--output=out"] if screen.names_output else []
    return [*tool.TOOL, *output, *screen.options, sys.executable, *screen.words, *more]


def _variables(screen: Screen) -> dict[str, str]:
    variables = {"OMP_NUM_THREADS": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "COLUMNS": "80"}
    variables |= {"DEV": "npu" if screen.npu else "cpu"}
    if screen.npu:
        variables |= virtual_npu_environment(with_torch=True) | {"VNPU_DEVICES": str(screen.devices)}
    if screen.memory:
        variables["VNPU_MEMORY"] = screen.memory
    return variables


def _asked(*words: str, folder: Path) -> str:
    run = tool.run([*tool.TOOL, *words], output=folder, folder=folder, variables={"COLUMNS": "80"})
    return f"{run.stderr}{run.stdout}"


@contextlib.contextmanager
def _started(command: list[str], screen: Screen, folder: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command, cwd=folder, env=environment(**_variables(screen)), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _while_it_runs(screen: Screen, folder: Path) -> str:
    port = _free_port()
    command = _command(screen, str(port)) if screen.requests else _command(screen)
    with _started(command, screen, folder) as process:
        if screen.requests:
            _send(port, screen.requests)
        else:
            assert process.stdout is not None
            while (line := process.stdout.readline().strip()) != "ready":
                assert process.poll() is None or line, process.communicate()[1]
        time.sleep(_ENOUGH_S)
        if screen.way is Way.RUNNING:
            return _asked("summary", "out", folder=folder)
        if screen.way is Way.INTERRUPTED:
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.terminate()
        return process.communicate(timeout=_WAIT_S)[1]


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _send(port: int, count: int) -> None:
    end = time.monotonic() + _WAIT_S
    for _ in range(count):
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
                    assert answer.read() == b"ok"
                    break
            except OSError:
                assert time.monotonic() < end
                time.sleep(0.1)


def _damage(output: Path, damage: Callable[[bytearray], bytearray]) -> None:
    logs = sorted(output.glob("*/event_log/events*"))
    assert logs
    for log in logs:
        log.write_bytes(damage(bytearray(log.read_bytes())))


def _flipped(content: bytearray) -> bytearray:
    used = [place for place in range(_PAGE, len(content)) if content[place]]
    for place in random.Random(5).sample(used, 12):  # noqa: S311 - no secret
        content[place] ^= 0xFF
    return content


def _cut(content: bytearray) -> bytearray:
    used = max(place for place in range(len(content)) if content[place])
    return content[: used * 2 // 3]


def _zeroed(content: bytearray) -> bytearray:
    pages = range(_PAGE, len(content), _PAGE)
    full = [page for page in pages if content[page : page + _PAGE].count(0) < _PAGE // 2] or [
        page for page in pages if any(content[page : page + _PAGE])
    ]
    page = full[len(full) // 2]
    content[page : page + _PAGE] = bytes(_PAGE)
    return content
