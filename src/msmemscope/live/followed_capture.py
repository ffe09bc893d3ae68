"""A capture that is followed while its program runs: read on, summed up, and shown as it is now."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.analysis.owners.owner_text import OwnerTraits, owner_text
from msmemscope.formats.event_log import CaptureState
from msmemscope.formats.event_log.followed_log import FollowedLog
from msmemscope.formats.event_log.process_header import is_process_alive, is_same_process
from msmemscope.launch.captures import program_text
from msmemscope.live.live_blocks import device_and_pool
from msmemscope.live.live_state import LiveState, PoolState
from msmemscope.live.site_texts import SiteTexts
from msmemscope.live.snapshot import FailedNow, HostNow, Life, OwnerInUse, PoolNow, ProcessNow, SiteInUse
from msmemscope.model.devices import device_name
from msmemscope.model.events import EventFlag
from msmemscope.model.place import Place
from msmemscope.model.pools import pool_word
from msmemscope.recording.call_sites import STACK_COLUMNS

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT_SITES: Final = 50
_NS_PER_SECOND: Final = 1_000_000_000
_FEW: Final = 1 << 14
"""Events of one piece that a program writes while the piece before it is summed up: we keep up with it."""


class FollowedCapture:
    """Follows one process.

    Args:
        directory: Its capture folder.

    Raises:
        EventLogError: It is none, or cannot be read.
    """

    def __init__(self, directory: Path) -> None:
        """Read the header; nothing else yet."""
        self._log = FollowedLog(directory)
        self._sites = SiteTexts(self._log)
        self._first_sequence = 0
        self._missed_before: int | None = None
        self._missed = 0
        self._is_alive = is_process_alive(self._log.header)
        self._is_behind = True
        self._has_grown = False
        self._refreshed_ns = 0
        self._events_per_second = 0.0
        self.state = LiveState(self._log)

    @property
    def directory(self) -> Path:
        """The capture folder."""
        return self._log.directory

    @property
    def process_id(self) -> int:
        """The process, 0 if its header does not say."""
        return self._log.header.process_id

    @property
    def place(self) -> Place:
        """Where the process stands in its job, as far as it has said."""
        return Place.from_facts(self._log.definitions.facts)

    @property
    def is_alive(self) -> bool:
        """Whether it ran, and recorded, when it was looked at last."""
        return self._is_alive

    @property
    def is_behind(self) -> bool:
        """Whether there are events that have not been read."""
        return self._is_behind

    def refresh(self, budget_s: float | None = None) -> None:
        """Read what has come since the last time.

        Args:
            budget_s: Seconds after which the rest is left for the next time; None for all that was there when it began.

        Raises:
            EventLogError: The capture cannot be read any more.
        """
        # In this order: once a program is known to have ended, all that it wrote is there.
        self._is_alive = is_process_alive(self._log.read_header())
        began_ns, deadline = time.time_ns(), time.monotonic() + (budget_s or 0.0)
        events, newest_ns = self.state.event_count, self.state.newest_ns
        was_behind = self._is_behind
        while True:
            self._is_behind = self._read_on()
            is_over = self.state.newest_ns > began_ns if budget_s is None else time.monotonic() > deadline
            if not self._is_behind or is_over:
                break
        # Reading old events says nothing of now: then the time of the events counts.
        since = newest_ns if was_behind or self._is_behind else self._refreshed_ns
        until = self.state.newest_ns if was_behind or self._is_behind else began_ns
        elapsed_ns = until - (since or self._log.header.start_ns)
        self._has_grown = self.state.event_count > events and self._refreshed_ns > 0
        new = self.state.event_count - events
        self._events_per_second = new * _NS_PER_SECOND / elapsed_ns if elapsed_ns > 0 and new > 0 else 0.0
        self._refreshed_ns = began_ns

    def now(self, site_count: int = DEFAULT_SITES) -> ProcessNow:
        """Return the values to show.

        Args:
            site_count: Most call sites of a pool.

        Raises:
            EventLogError: The capture cannot be read any more.
        """
        header, state, facts = self._log.header, self.state, self._log.definitions.facts
        life = self._life()
        until_ns = (header.end_ns or state.newest_ns) if life.is_over else time.time_ns()
        missed_before = self._missed_before or 0
        frame = state.blocks.frame()
        pools = [
            self._pool(place, pool, frame.filter(pl.col("place") == place), site_count)
            for place, pool in state.pools.items()
        ]
        return ProcessNow(
            source=str(self.directory),
            process_id=header.process_id,
            program=program_text(facts.get("argument", ()), facts.get("executable", ())),
            life=life,
            recorded_ns=max(until_ns - header.start_ns, 0) if header.start_ns else 0,
            event_count=state.event_count,
            events_per_second=self._events_per_second,
            step_count=state.steps.count,
            step_source=state.steps.source.value,
            behind_ns=max(until_ns - state.newest_ns, 0) if self._is_behind and state.newest_ns else 0,
            unread_events=self._log.unread_events() if self._is_behind else 0,
            missed_events=self._log.missed - missed_before,
            missed_before_events=missed_before,
            lost_events=header.dropped_failure + header.dropped_reentrant,
            late_events=state.late_events,
            problems=self._problems(),
            failed=self._failed(),
            host=self._host(),
            pools=tuple(sorted(pools, key=lambda pool: (-pool.in_use_bytes, -pool.peak_bytes, pool.name))),
        )

    def _read_on(self) -> bool:
        """Take the next events in, and return whether there are more."""
        records, segments, has_more = self._log.read()
        self._log.read_definitions()  # behind the events that have them
        if self._log.definitions.first_sequence != self._first_sequence:
            # Nothing that was recorded before counts. Blocks in use are recorded once more behind it.
            self._first_sequence = self._log.definitions.first_sequence
            self.state = LiveState(self._log)
        if self._log.missed > self._missed:
            self._missed = self._log.missed
            firsts = self._log.first_sequences()
            kept = self._log.kept_records()
            self.state.reconcile(firsts, kept[kept["sequence"] >= self._first_sequence])
        if self._missed_before is None:
            self._missed_before = self._missed
        counts = records["sequence"] >= self._first_sequence
        self.state.fold(records.compress(counts), segments[counts])
        return has_more or len(records) >= _FEW

    def _life(self) -> Life:
        state = self._log.header.state
        if state == CaptureState.FAILED:
            return Life.STOPPED if is_same_process(self._log.header) else Life.FAILED
        if state == CaptureState.CLOSED:
            return Life.ENDED
        if self._is_alive:
            return Life.RUNNING
        return Life.ELSEWHERE if self._has_grown else Life.KILLED

    def _problems(self) -> tuple[str, ...]:
        damaged = self._log.damaged
        lines = (f"{damaged} records are damaged and left out",) if damaged else ()
        return (*self._log.problems, *lines)

    def _failed(self) -> FailedNow | None:
        latest = self.state.latest_failure
        if latest is None:
            return None
        ids = dict(zip(STACK_COLUMNS, (latest.python_stack_id, latest.native_stack_id, 0), strict=True))
        stack = pl.DataFrame([ids], dict.fromkeys(STACK_COLUMNS, pl.UInt32()))
        return FailedNow(
            attempt_count=self.state.failed_attempts,
            device=device_name(latest.device),
            size_bytes=latest.size_bytes,
            function=self.state.text_of(latest.name_id),
            site=self._sites.sites(stack)["site"][0],
            timestamp_ns=latest.timestamp_ns,
        )

    def _host(self) -> HostNow | None:
        host = self.state.host
        if not host.peak_bytes:
            return None
        frame = self._log.attribute_frame(pl.Series([host.attribute_id], dtype=pl.UInt32))
        said = frame.filter(pl.col("attribute_id") == host.attribute_id).select("group_bytes", "group_limit")
        used, limit = said.row(0) if host.attribute_id and not said.is_empty() else (None, None)
        return HostNow(
            resident_bytes=host.resident_bytes,
            peak_bytes=host.peak_bytes,
            group_bytes=None if used is None else int(used),
            group_limit_bytes=None if limit is None else int(limit),
        )

    def _pool(self, place: int, pool: PoolState, blocks: pl.DataFrame, site_count: int) -> PoolNow:
        device, number = device_and_pool(place)
        sites = self._sites_in_use(blocks, site_count)
        return PoolNow(
            device=device_name(device),
            pool=pool_word(number, device),
            in_use_bytes=pool.in_use_bytes,
            reserved_bytes=pool.reserved_bytes,
            peak_bytes=pool.peak_bytes,
            block_count=blocks.height,
            growth_per_step_bytes=self.state.steps.growth_bytes(place),
            history_bytes=tuple(pool.history.most_bytes),
            history_stretch_ns=pool.history.width_ns,
            owners=self._owners(place, blocks),
            sites=sites,
            other_sites_bytes=pool.in_use_bytes - sum(site.size_bytes for site in sites),
        )

    def _sites_in_use(self, blocks: pl.DataFrame, site_count: int) -> tuple[SiteInUse, ...]:
        sums = blocks.group_by(STACK_COLUMNS).agg(
            size_bytes=pl.col("size").sum(), block_count=pl.len(), largest_bytes=pl.col("size").max()
        )
        sums = sums.sort("size_bytes", *STACK_COLUMNS, descending=[True, False, False, False])
        sites = (
            pl.concat([sums, self._sites.sites(sums).select("site", "site_path")], how="horizontal")
            .group_by("site_path", maintain_order=True)
            .agg(
                pl.col("site", *STACK_COLUMNS).first(),  # of the stack with the most bytes
                pl.col("size_bytes", "block_count").sum(),
                pl.col("largest_bytes").max(),
            )
            .sort("size_bytes", "site_path", descending=[True, False])
        )
        return tuple(
            SiteInUse(
                site=row["site"],
                operator=self.state.text_of(row["name_id"]),
                size_bytes=row["size_bytes"],
                block_count=row["block_count"],
                largest_bytes=row["largest_bytes"],
                stack=self._sites.stack(row["python_stack_id"], row["native_stack_id"]),
            )
            for row in sites.head(site_count).iter_rows(named=True)
        )

    def _owners(self, place: int, blocks: pl.DataFrame) -> tuple[OwnerInUse, ...]:
        """Return owners as far as labels, operators and steps tell them; accesses are not followed."""
        flags = int(EventFlag.BACKWARD | EventFlag.RECOMPUTED | EventFlag.SHADOW)
        sums = blocks.group_by(
            "labels",
            "module",
            flags=pl.col("flags") & flags,
            is_of_operator=pl.col("name_id") != 0,
            is_of_program=pl.col("sequence") < self.state.steps.latest_end,
        ).agg(size_bytes=pl.col("size").sum(), block_count=pl.len())
        found: dict[str, list[int]] = {}
        for row in sums.iter_rows(named=True):
            sizes = found.setdefault(self._owner(place, row), [0, 0])
            sizes[0] += row["size_bytes"]
            sizes[1] += row["block_count"]
        owners = [OwnerInUse(owner, size_bytes, block_count) for owner, (size_bytes, block_count) in found.items()]
        return tuple(sorted(owners, key=lambda owner: (-owner.size_bytes, owner.owner)))

    def _owner(self, place: int, row: dict[str, Any]) -> str:
        device, pool = device_and_pool(place)
        labels = self.state.labels[row["labels"]]
        is_of_backward = row["flags"] & EventFlag.BACKWARD and not row["flags"] & EventFlag.RECOMPUTED
        is_of_forward = not is_of_backward and not row["flags"] & EventFlag.SHADOW
        traits = OwnerTraits(
            is_pinned=False,  # has a pool of its own here
            is_activation=labels.is_saved and is_of_forward,
            is_gradient=False,  # accesses tell this and the next
            is_cache=False,
            is_workspace=False,
            is_of_program=row["is_of_program"],
            is_of_operator=row["is_of_operator"],
        )
        module = self.state.attributes.module_text(row["module"])
        return owner_text(dict(labels.texts), pool=pool, device=device, module=module, traits=traits)
