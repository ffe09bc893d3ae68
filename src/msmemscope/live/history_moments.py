"""Moments of running programs, taken from outside and kept beside their event logs.

A flight recorder gives old events back. The memory that a program had in use each hour is kept in the folder `history` of
its capture. Each moment is read from the log anew: its size is bounded where events are given back.
"""

from __future__ import annotations

import io
import time
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.analysis.host.growing_containers import growing_containers
from msmemscope.analysis.host.host_figures import host_figures
from msmemscope.analysis.host.host_ledger import FILES, KEPT_FREE
from msmemscope.analysis.host.host_samples import SHARED_MEMORY, HostSamples
from msmemscope.errors import DumpError, MsmemscopeError
from msmemscope.formats.dump.output_files import OutputFolder
from msmemscope.formats.event_log import Capture, CaptureState
from msmemscope.formats.event_log.followed_log import FollowedLog
from msmemscope.formats.event_log.history_files import (
    kept_moments,
    moment_content,
    moment_name,
    moment_names,
    read_moment,
    time_of,
)
from msmemscope.formats.event_log.process_header import is_process_alive
from msmemscope.formats.event_log.recording_of_log import recording_of_capture
from msmemscope.live.followed_capture import FollowedCapture
from msmemscope.live.live_blocks import device_and_pool
from msmemscope.model.capture_files import HISTORY_FOLDER
from msmemscope.model.devices import device_name
from msmemscope.model.events import EventKind
from msmemscope.model.pools import pool_word
from msmemscope.recording.recording import STEP_KINDS
from msmemscope.recording.run_history import HISTORY_SCHEMA, RESIDENT, HistoryKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from msmemscope.live.snapshot import PoolNow
    from msmemscope.recording import Recording

MOST_SITES: Final = 200
"""Call sites of a pool, lines of host memory, and containers, that a moment has; those with the most bytes."""
MOST_MOMENTS: Final = 10_000
"""Files of a history. Beyond them every second one of the older half goes: the curve stays whole, and coarser."""
PRIVATE: Final = "private memory in use"
_HOST_KINDS: Final = frozenset(
    {
        *STEP_KINDS,
        EventKind.HOST_SAMPLE,
        EventKind.HOST_SAMPLE_FREE,
        EventKind.HOST_MEMORY,
        EventKind.HOST_RESIDENT,
        EventKind.CONTAINER,
    }
)
_RECENT_NS: Final = 3600 * 1_000_000_000
"""A process that cannot be seen from here, and has no history yet, runs if its latest event is not older."""

Row = dict[str, Any]


class HistoryKeeper:
    """Takes moments of the captures that are named.

    Args:
        find: Returns the folders of the captures that there are now.
    """

    def __init__(self, find: Callable[[], Iterable[Path]]) -> None:
        """Take nothing yet."""
        self._find = find
        self._seen_alive: set[Path] = set()
        self._over: set[Path] = set()

    def has_running(self) -> bool:
        """Whether a program may still run: one is alive here, or its end was not seen at its last moment."""
        for folder in self._find():
            if folder not in self._over:
                try:
                    header = FollowedLog(folder).header
                except MsmemscopeError:  # it is being made, or was removed
                    continue
                if is_process_alive(header):
                    self._seen_alive.add(folder)
                    return True
                if folder not in self._seen_alive and header.state == CaptureState.OPEN:
                    return True
        return False

    def take(self) -> list[MsmemscopeError]:
        """Keep one moment of each capture whose program runs, and a last one of each that was killed.

        A program that has ended in order has given its memory back: its end says nothing of its growth.

        Returns:
            Why moments could not be taken. One that fails does not keep the others from being taken.
        """
        failures: list[MsmemscopeError] = []
        for folder in self._find():
            if folder in self._over:
                continue
            try:
                if not self._take_one(folder):
                    self._over.add(folder)
            except MsmemscopeError as error:
                failures.append(error)
        return failures

    def _take_one(self, folder: Path) -> bool:
        """Keep a moment of one capture, and return whether more may follow.

        Raises:
            MsmemscopeError: The capture cannot be read, or nothing can be written there.
        """
        if _has_closed(folder):
            return False
        capture = FollowedCapture(folder)
        capture.refresh()
        if capture.is_alive:
            self._seen_alive.add(folder)
            keep_moment(folder, moment_rows(capture, time.time_ns()))
            return True
        # Killed, or in another container, where its number means nothing here: its events say which.
        newest_ns = capture.state.newest_ns
        kept = kept_moments(folder)
        latest_ns = time_of(kept[-1]) if kept else time.time_ns() - _RECENT_NS
        if newest_ns <= latest_ns or _has_closed(folder):
            return False
        rows = moment_rows(capture, newest_ns)
        if kept and _is_torn_down(rows, read_moment(kept[-1], moment_content(folder, kept[-1]))):
            return False
        keep_moment(folder, rows)
        return folder not in self._seen_alive


def _has_closed(folder: Path) -> bool:
    return FollowedLog(folder).header.state != CaptureState.OPEN


def _is_torn_down(rows: pl.DataFrame, before: pl.DataFrame | None) -> bool:
    """Whether a program that was ended by a signal has freed its memory first, as Python does after Ctrl-C.

    Args:
        rows: Its last moment.
        before: The moment before that; None if it cannot be read.
    """
    is_pool = pl.col("kind") == HistoryKind.POOL.value
    then = 0 if before is None else int(before.filter(is_pool)["bytes"].sum())
    return int(rows.filter(is_pool)["bytes"].sum()) < then / 2


def keep_moment(capture: Path, rows: pl.DataFrame) -> Path:
    """Write a moment into the history of a capture, and thin the history where it has too many.

    Args:
        capture: Its folder.
        rows: HISTORY_SCHEMA, all of one moment.

    Returns:
        The file.

    Raises:
        DumpError: The disk is full, or the folder cannot be written to.
    """
    content = io.BytesIO()
    rows.write_parquet(content, compression="zstd")
    with OutputFolder(capture, HISTORY_FOLDER) as folder:
        folder.remove_abandoned()
        file = folder.create(moment_name(rows["timestamp_ns"][0]))
        try:
            file.write(content.getbuffer())
            written = file.finish(replaces=True)
        finally:
            file.discard()
        thin(folder.path, moment_names(folder.names()))
    return written


def thin(folder: Path, names: list[str], most: int = MOST_MOMENTS) -> None:
    """Remove every second one of the older half of too many moments.

    Args:
        folder: Of the history.
        names: Of its moments, the oldest first.
        most: That may stay.

    Raises:
        DumpError: They cannot be removed.
    """
    if len(names) <= most:
        return
    try:
        for name in names[1 : len(names) // 2 : 2]:  # the first one stays
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        message = f"{folder} cannot be thinned: {error.strerror}"
        raise DumpError(message) from error


def moment_rows(capture: FollowedCapture, timestamp_ns: int) -> pl.DataFrame:
    """Return what a process has in use now.

    Args:
        capture: Read on to its end.
        timestamp_ns: The moment, CLOCK_REALTIME.

    Returns:
        HISTORY_SCHEMA.

    Raises:
        EventLogError: The capture cannot be read any more.
    """
    now = capture.now(MOST_SITES)
    log = Capture(capture.directory)
    recording = recording_of_capture(log, capture.directory, _HOST_KINDS)
    rows = [row for pool in now.pools for row in _pool_rows(pool)]
    rows.extend(_step_end_rows(capture))
    rows.extend(_host_rows(recording))
    facts = {
        "timestamp_ns": timestamp_ns,
        "step": int(recording.steps["number"].to_numpy().max(initial=0)),
        "events": now.event_count + now.missed_events + now.missed_before_events,
    }
    return pl.DataFrame([facts | row for row in rows or [{}]], HISTORY_SCHEMA)


def _pool_rows(pool: PoolNow) -> Iterator[Row]:
    place = {"device": pool.device, "pool": pool.pool}
    yield place | _row(HistoryKind.POOL, "", pool.in_use_bytes, pool.block_count, pool.peak_bytes)
    if pool.reserved_bytes is not None:
        yield place | _row(HistoryKind.RESERVED, "", pool.reserved_bytes)
    for owner in pool.owners:
        yield place | _row(HistoryKind.OWNER, owner.owner, owner.size_bytes, owner.block_count)
    sites: dict[str, tuple[int, int]] = {}
    for site in pool.sites:  # several paths can lead to one line
        size_bytes, blocks = sites.get(site.site, (0, 0))
        sites[site.site] = size_bytes + site.size_bytes, blocks + site.block_count
    for name, (size_bytes, blocks) in sites.items():
        yield place | _row(HistoryKind.SITE, name, size_bytes, blocks)


def _step_end_rows(capture: FollowedCapture) -> Iterator[Row]:
    for place in capture.state.pools:
        size_bytes = capture.state.steps.use_after(place)
        if size_bytes is not None:
            device, pool = device_and_pool(place)
            names = {"device": device_name(device), "pool": pool_word(pool, device)}
            yield names | _row(HistoryKind.STEP_END, "", size_bytes)


def _host_rows(recording: Recording) -> Iterator[Row]:
    place = {"device": "cpu", "pool": ""}
    figures = host_figures(recording)
    if not figures.is_empty():
        latest = figures.row(-1, named=True)
        # In a log the C library keeps at least 1 byte: that stands for unknown.
        kept = latest["kept"] if latest["kept"] > 1 else 0
        files, shared = latest["files"] or 0, latest["shared"]
        peak = (figures["anonymous"] + figures["files"].fill_null(0) + figures["shared"]).max()
        yield place | _row(HistoryKind.HOST, RESIDENT, latest["anonymous"] + files + shared, peak=peak)
        parts = {PRIVATE: latest["anonymous"] - kept, KEPT_FREE: kept, FILES: files, SHARED_MEMORY: shared}
        for part, size_bytes in parts.items():
            yield place | _row(HistoryKind.HOST, part, size_bytes)
    events = recording.events["sequence"]
    alive = HostSamples.of(recording).alive(0, int(events[-1]) if events.len() else 0).without_imports(recording)
    if not alive.rows.is_empty():
        for site, _ in alive.by_line(recording)[:MOST_SITES]:
            yield place | _row(HistoryKind.HOST_SITE, site.site, site.live_bytes, site.samples)
    for container in growing_containers(recording).head(MOST_SITES).iter_rows(named=True):
        yield place | _row(
            HistoryKind.CONTAINER, container["held_by"], container["total_bytes"] or 0, container["entries"]
        )


def _row(kind: HistoryKind, name: str, size_bytes: int, blocks: int | None = None, peak: object = None) -> Row:
    return {"kind": kind.value, "name": name, "bytes": size_bytes, "blocks": blocks, "peak_bytes": peak}
