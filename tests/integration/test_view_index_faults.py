"""If `msmemscope view` cannot make an index, it prints one clear line, has the right status, and leaves nothing."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("uvicorn", reason="needs starlette and uvicorn: pip install 'msmemscope[view]'")

from tests.support.nightly import nightly
from tests.support.recorded_runs import write_run
from tests.support.small_disk import small_disk
from tests.support.targets import environment
from tests.support.viewer import COMMAND, RunningViewer

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATIENCE_S = 60
NO_ROOM_HINT = "hint: make room there, or set XDG_CACHE_HOME to a folder that has more\n"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A short run."""
    return write_run(tmp_path / "run")


def files_below(folder: Path) -> list[Path]:
    """Everything but folders of the cache itself."""
    view = folder / "msmemscope" / "view"
    return [path for path in folder.rglob("*") if path not in {view, view.parent}]


@contextlib.contextmanager
def building(capture: Path, cache: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A viewer whose index is being made, and the process that makes it, which is stopped."""
    command = [*COMMAND, "--no-browser", str(capture)]
    variables = {**environment(), "XDG_CACHE_HOME": str(cache)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables, start_new_session=True
    ) as viewer:
        try:
            children = Path(f"/proc/{viewer.pid}/task/{viewer.pid}/children")
            until = time.monotonic() + _PATIENCE_S
            while not (found := children.read_text().split()) and time.monotonic() < until:
                time.sleep(0.001)
            os.kill(int(found[0]), signal.SIGSTOP)
            assert list(cache.glob("msmemscope/view/*.part"))
            yield viewer, int(found[0])
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(viewer.pid, signal.SIGKILL)


@pytest.mark.parametrize("size_kib", [*(pytest.param(size, marks=nightly) for size in (4, 100)), 260])
def test_a_full_disk_is_named(capture: Path, tmp_path: Path, size_kib: int) -> None:
    """Whether the folder, the first files or the last ones have no room."""
    prefix, disk, copy = small_disk(tmp_path, size_kib)
    run = subprocess.run(
        [*prefix, *COMMAND, "--no-browser", str(capture)],
        capture_output=True, text=True, check=False, env={**environment(), "XDG_CACHE_HOME": str(disk)}, timeout=_PATIENCE_S,
    )  # fmt: skip
    assert (run.returncode, run.stdout) == (2, "")
    message = f"msmemscope: error: no index can be kept in {disk}/msmemscope/view: No space left on device\n"
    assert run.stderr == message + NO_ROOM_HINT
    assert files_below(copy) == []


def test_a_file_that_may_not_grow_is_named(capture: Path, tmp_path: Path) -> None:
    """As on a full disk, of the limit of a process."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    run = subprocess.run(
        [*COMMAND, "--no-browser", str(capture)],
        capture_output=True, text=True, check=False, timeout=_PATIENCE_S,
        env={**environment(), "XDG_CACHE_HOME": str(tmp_path / "cache")},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard)),
    )  # fmt: skip
    assert (run.returncode, run.stdout) == (2, "")
    message = f"msmemscope: error: no index can be kept in {tmp_path}/cache/msmemscope/view: File too large\n"
    assert run.stderr == message + NO_ROOM_HINT
    assert files_below(tmp_path / "cache") == []


def test_ctrl_c_ends_the_work(capture: Path, tmp_path: Path) -> None:
    """Status 130 without a word, as of every command."""
    with building(capture, tmp_path / "cache") as (viewer, worker):
        os.killpg(viewer.pid, signal.SIGINT)
        output, errors = viewer.communicate(timeout=_PATIENCE_S)
        assert (viewer.returncode, output, errors) == (130, "", "")
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)
    assert files_below(tmp_path / "cache") == []


def test_a_worker_that_is_killed_is_explained(capture: Path, tmp_path: Path) -> None:
    """As the kernel does it where memory runs out."""
    with building(capture, tmp_path / "cache") as (viewer, worker):
        os.kill(worker, signal.SIGKILL)
        output, errors = viewer.communicate(timeout=_PATIENCE_S)
    assert (viewer.returncode, output) == (2, "")
    message, hint = errors.splitlines()
    assert message == f"msmemscope: error: the index of {capture} was not made: its process was ended by SIGKILL"
    assert hint.startswith("hint: where memory runs out, processes are ended so: about ")
    assert files_below(tmp_path / "cache") == []


@pytest.mark.parametrize("how", [pytest.param(signal.SIGTERM, marks=nightly), signal.SIGKILL])
def test_a_worker_whose_viewer_is_killed_ends_too(capture: Path, tmp_path: Path, how: signal.Signals) -> None:
    """It takes what it has made with it."""
    with building(capture, tmp_path / "cache") as (viewer, worker):
        viewer.send_signal(how)
        viewer.wait(_PATIENCE_S)
        os.kill(worker, signal.SIGCONT)
        # Its end closes the last of both.
        output, errors = viewer.communicate(timeout=_PATIENCE_S)
        assert (output, errors) == ("", "")
    assert files_below(tmp_path / "cache") == []


def test_what_is_left_of_killed_viewers_is_removed(capture: Path, tmp_path: Path) -> None:
    """Of those that live, also of the same capture, it is not."""
    cache = tmp_path / "cache"
    with building(capture, cache) as (viewer, _):
        os.killpg(viewer.pid, signal.SIGKILL)
        viewer.communicate(timeout=_PATIENCE_S)
    (abandoned,) = cache.glob("msmemscope/view/*")
    with building(capture, cache) as (one, worker):
        assert not abandoned.exists()
        (living,) = cache.glob("msmemscope/view/*")
        with building(capture, cache) as (other, other_worker):
            assert living.exists()
            os.kill(other_worker, signal.SIGCONT)
            assert RunningViewer(other).content("session")["processes"]
            (made,) = set(cache.glob("msmemscope/view/*")) - {living}
            when = (made / "0" / "facts.json").stat().st_mtime_ns
        os.kill(worker, signal.SIGCONT)
        assert RunningViewer(one).content("session")["processes"]
    assert list(cache.glob("msmemscope/view/*")) == [made]
    assert (made / "0" / "facts.json").stat().st_mtime_ns == when


def test_without_a_cache_the_index_is_made_for_once(capture: Path, tmp_path: Path) -> None:
    """The index lies in a temporary folder, which is removed as soon as the index is open. A message says so."""
    (tmp_path / "temporary").mkdir()
    variables = {"XDG_CACHE_HOME": "/dev/null/nowhere", "TMPDIR": str(tmp_path / "temporary")}
    with subprocess.Popen(
        [*COMMAND, "--no-browser", str(capture), str(capture / "event_log")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**environment(), **variables},
    ) as viewer:  # fmt: skip
        running = RunningViewer(viewer)
        assert len(running.content("session")["processes"]) == 2
        assert list((tmp_path / "temporary").iterdir()) == []
        viewer.send_signal(signal.SIGINT)
        _, errors = viewer.communicate(timeout=_PATIENCE_S)
    message, hint = errors.splitlines()[:2]
    assert message == (
        "msmemscope: warning: no index can be kept in /dev/null/nowhere/msmemscope/view: Not a directory; "
        f"it is made in {tmp_path}/temporary for this time only"
    )
    assert hint == "hint: set XDG_CACHE_HOME to a folder that can be written"
