"""Orders through a folder: for a launcher that runs where its processes cannot be seen from, in another container.

A launch has a folder in its output root while it runs. An order is a file in its folder `orders`. The launcher claims
the file by a new name, does what it says in the processes below it, and writes an answer beside it. Both are JSON:

- order: `{"words": ["set", "events=alloc"], "captures": ["msmemscope_7_..._ascend"]}`; no captures stand for all;
- answer: `{"done": [7], "failed": ["process 8 has ended"]}`.
"""

from __future__ import annotations

import _thread  # not threading: most commands end before anything is asked
import contextlib
import dataclasses
import os
import signal
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msmemscope.launch.ledger import LAUNCH_DIRECTORY_PREFIX, read_ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ORDERS_FOLDER: Final = "orders"
_ORDER: Final = ".order"
_CLAIMED: Final = ".claimed"
_ANSWER: Final = ".answer"
_POLL_S: Final = 0.5
_CLAIM_S: Final = 5.0
"""A launcher looks twice per second; one that does not within this time has ended, or is stopped."""
_ANSWER_S: Final = 120.0
_MOST_BYTES: Final = 1 << 14


@dataclasses.dataclass(frozen=True)
class Answer:
    """The answer of one launcher."""

    done: tuple[int, ...] = ()
    """The processes that did it, by their numbers where the launcher runs."""
    failed: tuple[str, ...] = ()
    """Why others did not, one sentence each."""


class OrderDesk:
    """Takes orders in a thread of its own while a launched program runs.

    Args:
        launch_directory: Of the launch.
        obey: Called in the thread, with the number of a process and the words of the order. Returns why it was not
            done, or an empty text.
    """

    def __init__(self, launch_directory: Path, obey: Callable[[int, Sequence[str]], str]) -> None:
        self._launch_directory = launch_directory
        self._folder = launch_directory / ORDERS_FOLDER
        self._obey = obey
        self._program_ended = _thread.allocate_lock()
        self._thread_ended = _thread.allocate_lock()

    def begin(self) -> None:
        """Start the thread. Signals of the main thread must be held back: threads started here never get them."""
        self._program_ended.acquire()
        self._thread_ended.acquire()
        try:
            _thread.start_new_thread(self._run, ())
        except RuntimeError:  # no more threads here: nobody takes orders
            self._thread_ended.release()

    def end(self) -> None:
        """Take no more orders; waits for one that is being done. Without effect if it was not begun."""
        if self._program_ended.locked():
            self._program_ended.release()
        with self._thread_ended, contextlib.suppress(OSError):
            for name in os.listdir(self._folder):  # noqa: PTH208 - names, not paths
                (self._folder / name).unlink(missing_ok=True)
            self._folder.rmdir()

    def _run(self) -> None:
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            while not self._program_ended.acquire(timeout=_POLL_S):
                # Whatever is wrong with a file, the next one is looked at.
                with contextlib.suppress(OSError):
                    for name in sorted(os.listdir(self._folder)):  # noqa: PTH208 - names, not paths
                        if name.endswith(_ORDER):
                            self._take(self._folder / name)
        finally:
            self._thread_ended.release()

    def _take(self, order: Path) -> None:
        import json  # most commands are never asked

        claimed = order.with_suffix(_CLAIMED)
        order.rename(claimed)
        try:
            answer = self._answer(claimed)
        except Exception as error:  # noqa: BLE001 - whoever asks hears of it, and the next order is taken
            answer = Answer(failed=(f"the order cannot be done: {type(error).__name__}: {error}",))

        made = order.with_suffix(".part")
        made.write_text(json.dumps(dataclasses.asdict(answer)), encoding="utf-8")
        made.rename(order.with_suffix(_ANSWER))

    def _answer(self, claimed: Path) -> Answer:
        try:
            words, captures = _read_order(claimed)
        except (OSError, ValueError) as error:
            return Answer(failed=(f"the order cannot be read: {error}",))
        ledger = read_ledger(self._launch_directory)
        targets = [process for path, process in ledger.captures.items() if not captures or path.name in captures]
        if not ledger.captures:
            # Collection may wait for this very order. A process that has ended since is no target.
            targets = [started.process_id for started in ledger.started]
        found = {
            process: self._obey(process, words)
            for process in dict.fromkeys(targets)
            # Once the program has ended, the launcher waits for us.
            if self._program_ended.locked() and Path("/proc", str(process)).is_dir()
        }
        return Answer(
            tuple(process for process, failure in found.items() if not failure),
            tuple(failure for failure in found.values() if failure),
        )


def _read_order(path: Path) -> tuple[list[str], list[str]]:
    """Read words and names of captures.

    Raises:
        OSError: If the file cannot be read, or is somebody else's.
        ValueError: If it is no order.
    """
    import json

    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in {0, os.geteuid()}:
            message = "it is another user's"
            raise PermissionError(message)
        content = json.loads(file.read(_MOST_BYTES))
    if not isinstance(content, dict):
        message = "it is no object"
        raise ValueError(message)  # noqa: TRY004 - as for every other content that is none
    return _texts(content.get("words")), _texts(content.get("captures"))


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        message = "it has no list of texts"
        raise ValueError(message)
    return value


def launch_directories(root: Path) -> list[Path]:
    """Return the folders of launches in an output root; launchers that were killed leave theirs."""
    with contextlib.suppress(OSError):
        return sorted(path for path in root.iterdir() if path.name.startswith(LAUNCH_DIRECTORY_PREFIX))
    return []


def send_order(directories: Sequence[Path], words: Sequence[str], captures: Sequence[str]) -> list[Answer]:
    """Have launchers do something in their processes, and wait for their answers.

    Args:
        directories: Of the launches.
        words: Of the order.
        captures: Names of the capture folders whose processes are meant; none for all.

    Returns:
        The answers. A launcher that does not look within some seconds has none.

    Raises:
        OSError: If an order cannot be written.
    """
    return [answer for directory in directories for answer in _send(directory, words, captures)]


def _send(directory: Path, words: Sequence[str], captures: Sequence[str]) -> Iterator[Answer]:
    import json

    folder = directory / ORDERS_FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    order = folder / f"{os.urandom(8).hex()}{_ORDER}"
    made = order.with_suffix(".new")
    answer = order.with_suffix(_ANSWER)
    try:
        made.write_text(json.dumps({"words": list(words), "captures": list(captures)}), encoding="utf-8")
        made.rename(order)
        is_claimed = _waits(lambda: not order.exists(), _CLAIM_S)
        if is_claimed and _waits(lambda: answer.exists() or not folder.is_dir(), _ANSWER_S) and answer.exists():
            content = json.loads(answer.read_text(encoding="utf-8"))
            yield Answer(tuple(content["done"]), tuple(content["failed"]))
    finally:
        for path in (made, order, order.with_suffix(_CLAIMED), answer):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # orders of others are in it
            folder.rmdir()


def _waits(is_there: Callable[[], bool], patience_s: float) -> bool:
    until_s = time.monotonic() + patience_s
    while not is_there():
        if time.monotonic() >= until_s:
            return False
        time.sleep(_POLL_S / 10)
    return True
