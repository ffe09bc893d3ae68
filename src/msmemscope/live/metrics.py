"""Figures of running programs for Prometheus: read from their captures at each scrape, from outside.

The number of series is bounded: of each pool the largest call sites have one. Sums, growth and forecasts are made of these
by whoever stores them.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from msmemscope.errors import MsmemscopeError
from msmemscope.live.followed_capture import FollowedCapture
from msmemscope.live.snapshot import Life
from msmemscope.reports.html.shown_text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from prometheus_client.core import Metric

    from msmemscope.live.snapshot import PoolNow, ProcessNow

MOST_SITES: Final = 10
"""Call sites of a pool that have a series."""
_LOOK_S: Final = 2.0
"""The most time for the events of one process at one scrape; the rest is read at the next one."""
_PROCESS: Final = ("process", "rank", "node")
_POOL: Final = (*_PROCESS, "device", "pool")


class CaptureMetrics:
    """A collector of prometheus_client: the processes of some captures.

    Args:
        find: Returns the folders of the captures there are now.
    """

    def __init__(self, find: Callable[[], Iterable[Path]]) -> None:
        self._find = find
        self._followed: dict[Path, FollowedCapture] = {}
        self._lock = threading.Lock()

    def collect(self) -> Iterable[Metric]:
        """Look at all processes once, and return their figures."""
        with self._lock:
            # Containers number their processes alike: of equal ones the last run counts, as Prometheus takes each once.
            newest = {self._labels(one): one for one in sorted(self._looked_at(), key=lambda one: one.directory.name)}
            return list(families((labels, one.now(MOST_SITES)) for labels, one in newest.items()))

    def _looked_at(self) -> Iterator[FollowedCapture]:
        try:
            folders = [*self._find()]
        except MsmemscopeError:
            return  # nothing is there now
        for folder in folders:
            try:
                capture = self._followed.get(folder) or FollowedCapture(folder)
                capture.refresh(_LOOK_S)
            except MsmemscopeError:
                self._followed.pop(folder, None)  # it is being made, or was removed: the next scrape tries again
                continue
            self._followed[folder] = capture
            yield capture

    @staticmethod
    def _labels(capture: FollowedCapture) -> tuple[str, str, str]:
        place = capture.place
        rank = "" if place.rank is None else str(place.rank)
        return str(capture.process_id), rank, shown(place.node)


def families(processes: Iterable[tuple[tuple[str, str, str], ProcessNow]]) -> Iterator[Metric]:
    """Return the figures of some processes.

    Args:
        processes: Values of the labels `process`, `rank` and `node`, and the state of each.
    """
    every = list(processes)
    yield from _of_processes(every)
    yield from _of_pools([(labels, pool) for labels, now in every for pool in now.pools])


def _of_processes(every: list[tuple[tuple[str, str, str], ProcessNow]]) -> Iterator[Metric]:
    running = GaugeMetricFamily("msmemscope_process_running", "1 while the process runs and records", labels=_PROCESS)
    events = CounterMetricFamily("msmemscope_events", "Events that were recorded", labels=_PROCESS)
    steps = CounterMetricFamily("msmemscope_steps", "Steps that have ended", labels=_PROCESS)
    failures = CounterMetricFamily("msmemscope_failed_allocations", "Allocations that failed", labels=_PROCESS)
    resident = GaugeMetricFamily("msmemscope_host_resident_bytes", "Resident memory of the process", labels=_PROCESS)
    peak = GaugeMetricFamily("msmemscope_host_peak_bytes", "The most of it so far", labels=_PROCESS)
    group = GaugeMetricFamily("msmemscope_control_group_bytes", "Memory that its control group uses", labels=_PROCESS)
    limit = GaugeMetricFamily("msmemscope_control_group_limit_bytes", "The limit of that group", labels=_PROCESS)
    for labels, now in every:
        running.add_metric(labels, float(now.life in {Life.RUNNING, Life.ELSEWHERE}))
        events.add_metric(labels, now.event_count)
        steps.add_metric(labels, now.step_count)
        failures.add_metric(labels, 0 if now.failed is None else now.failed.attempt_count)
        if now.host is not None:
            resident.add_metric(labels, now.host.resident_bytes)
            peak.add_metric(labels, now.host.peak_bytes)
            if now.host.group_bytes is not None and now.host.group_limit_bytes is not None:
                group.add_metric(labels, now.host.group_bytes)
                limit.add_metric(labels, now.host.group_limit_bytes)
    yield from (running, events, steps, failures, resident, peak, group, limit)


def _of_pools(pools: list[tuple[tuple[str, str, str], PoolNow]]) -> Iterator[Metric]:
    in_use = GaugeMetricFamily("msmemscope_in_use_bytes", "Bytes of the blocks that are in use", labels=_POOL)
    blocks = GaugeMetricFamily("msmemscope_in_use_blocks", "Blocks that are in use", labels=_POOL)
    peak = GaugeMetricFamily("msmemscope_peak_bytes", "The most bytes in use so far", labels=_POOL)
    reserved = GaugeMetricFamily("msmemscope_reserved_bytes", "Memory of the driver that the pool holds", labels=_POOL)
    growth = GaugeMetricFamily(
        "msmemscope_growth_per_step_bytes", "By how much more is in use after a step than before it", labels=_POOL
    )
    sites = GaugeMetricFamily(
        "msmemscope_site_in_use_bytes",
        f"Bytes in use of the {MOST_SITES} call sites with the most",
        labels=(*_POOL, "site"),
    )
    for labels, pool in pools:
        place = (*labels, pool.device, pool.pool)
        in_use.add_metric(place, pool.in_use_bytes)
        blocks.add_metric(place, pool.block_count)
        peak.add_metric(place, pool.peak_bytes)
        if pool.reserved_bytes is not None:
            reserved.add_metric(place, pool.reserved_bytes)
        if pool.growth_per_step_bytes is not None:
            growth.add_metric(place, pool.growth_per_step_bytes)
        by_line: dict[str, int] = {}
        for site in pool.sites[:MOST_SITES]:
            line = shown(site.site)
            by_line[line] = by_line.get(line, 0) + site.size_bytes
        for line, size in by_line.items():
            sites.add_metric((*place, line), size)
    yield from (in_use, blocks, peak, reserved, growth, sites)
