"""Makes the index of a process: its events, blocks, pools and calls as arrays.

Rows are those of the events of the process, from 0. A block "in use at a row" is in use right after it.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import polars as pl

from msmemscope.analysis.owners.decomposition import owned_blocks
from msmemscope.analysis.weights.measures import leaked_blocks
from msmemscope.analysis.weights.path_tree import PathTreeBuilder
from msmemscope.model.devices import device_name
from msmemscope.model.events import EventKind
from msmemscope.model.owners import SEPARATOR, without_module
from msmemscope.model.pools import POOLS_WITH_RESERVE, Pool, pool_word
from msmemscope.recording.block_pairing import block_sequences
from msmemscope.recording.block_sets import OUTSIDE_OPERATORS
from msmemscope.recording.call_sites import NO_CALL_SITE, STACK_COLUMNS, call_sites
from msmemscope.recording.failed_allocations import failed_attempts
from msmemscope.recording.step_bounds import process_steps
from msmemscope.reports.html.time_axis import TimeAxis
from msmemscope.view.index.build_calls import put_calls
from msmemscope.view.index.build_events import put_events
from msmemscope.view.index.store import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from msmemscope.analysis.weights.path_tree import PathTree
    from msmemscope.recording import Recording
    from msmemscope.view.index.store import IndexWriter

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

NO_MODULE: Final = "(no module)"
NO_STREAM: Final = "(unknown stream)"
_OPERATORS: Final = "torch._ops."
"""The beginning of names of torch's operators."""
_PLACE: Final = ["device", "pool"]
_NEEDED: Final = [
    *_PLACE, "malloc_sequence", "free_sequence", "returned_sequence", "size", "address", "requested_bytes", "owner", *STACK_COLUMNS,
    "stream_id", "thread_id", "free_thread_id", "free_python_stack_id", "free_native_stack_id",
]  # fmt: skip
"""Columns of blocks."""
_LATEST: Final = float(1 << 53)
"""Last moment of an axis, as scripts have numbers: only a damaged recording lasts longer, 104 days."""
_MOST_FRAMES: Final = 200
"""Frames of a path that are nodes of their own, the innermost; the others are one."""


@dataclasses.dataclass(frozen=True, eq=False)
class _Grouping:
    """Which group each block is in."""

    name: str
    codes: Numbers
    labels: pl.Series

    def of(self, members: Numbers) -> _Grouping:
        """The grouping of the things that stand for members of this one."""
        return dataclasses.replace(self, codes=self.codes[members])


@dataclasses.dataclass(frozen=True, eq=False)
class _Stacks:
    """The different stacks under which blocks were allocated."""

    codes: Numbers
    """Of each block: its row in `table`."""
    table: pl.DataFrame
    """STACK_COLUMNS, `site`, `site_path`, `operator` (null outside of one)."""


class IndexBuilder:
    """Makes the index of one process.

    Args:
        recording: The process.
        writer: Gets the arrays.
        progress: Called with the next piece of work, and the share of all work that is done, 0 to 1.
    """

    def __init__(self, recording: Recording, writer: IndexWriter, progress: Callable[[str, float], None]) -> None:
        """Nothing is done yet."""
        self._recording = recording
        self._writer = writer
        self._progress = progress
        self._axis = TimeAxis.of(recording)
        np.minimum(self._axis.moments, _LATEST, out=self._axis.moments)
        self._addresses: Numbers = np.zeros(0, dtype=np.uint64)
        self._returned: Numbers = np.zeros(0, dtype=np.uint32)
        self._held_devices: set[int] = set()
        self._steps = process_steps(recording)
        is_report = (pl.col("kind") == EventKind.RESERVED) & (pl.col("size") >= 0)
        reports = recording.events.lazy().with_row_index("row").filter(is_report)
        self._reserved = reports.select("row", "size", "device", "pool").collect()

    def build(self) -> dict[str, Any]:
        """Write the arrays and return the facts about them.

        Each part of the recording is let go of after its last use. When the pools are written, only its stacks and
        names are left.
        """
        recording, axis = self._recording, self._axis
        if recording.events.height >= NEVER:
            message = "more events than an index has rows"
            raise OverflowError(message)
        facts: dict[str, Any] = {
            "source": recording.source,
            "form": recording.form,
            "process_id": recording.process_id,
            "has_times": axis.is_time,
            "begin_ns": axis.begin_ns,
            "length": {"time": int(axis.length) if axis.is_time else 0, "events": recording.events.height},
            "events": recording.events.height,
            "steps": recording.steps.height,
        }
        steps = recording.steps.select("begin_sequence", "number").unique("begin_sequence", keep="first")
        self._progress("owners", 0.0)
        owned, notes = owned_blocks(recording)
        facts["problems"] = [*recording.problems, *recording.coverage, *notes]
        has_leaked = leaked_blocks(recording)
        self._recording = recording = dataclasses.replace(recording, blocks=recording.blocks.clear())
        self._progress("blocks", 0.2)
        pools = self._pools(owned)
        blocks = self._ordered(owned, pools)
        del owned
        begins, ends = self._put_blocks(blocks, pools)
        self._writer.put("blocks/has_leaked", blocks.select(has_leaked).to_series().to_numpy())
        self._progress("calls", 0.3)
        facts["tracks"] = put_calls(recording, axis, self._writer)
        self._put_marks()
        self._progress("events", 0.4)
        put_events(recording, axis, blocks["malloc_sequence"].to_numpy(), self._writer)
        self._recording = recording = dataclasses.replace(recording, events=recording.events.clear())
        self._progress("groups", 0.5)
        stacks = self._stacks(blocks)
        groupings = list(self._groupings(blocks, stacks))
        for grouping in groupings:
            self._writer.put(f"groups/{grouping.name}/codes", grouping.codes)
            self._writer.put_texts(f"groups/{grouping.name}/labels", grouping.labels)
        self._put_owner_tree(next(one for one in groupings if one.name == "owner"))
        self._put_stacks(blocks, stacks)
        sizes, self._addresses = blocks["size"].to_numpy(), blocks["address"].to_numpy()
        del blocks, stacks
        facts |= {"blocks": len(sizes), "groupings": [one.name for one in groupings], "pools": []}
        offset = 0
        for number, pool in enumerate(pools.iter_rows(named=True)):
            self._progress("pools", 0.7 + 0.3 * number / len(pools))
            part = slice(offset, offset + pool["len"])
            lives = begins[part], ends[part], sizes[part]
            facts["pools"].append(self._put_pool(number, pool, part, lives, groupings))
            self._put_steps(number, pool["device"], steps)
            offset += pool["len"]
        return facts

    def _rows(self, sequences: pl.Series) -> Numbers:
        """The rows of events; of one that is not there, the next; NEVER for null."""
        rows = np.searchsorted(self._axis.sequences, sequences.fill_null(0).to_numpy()).astype(np.uint32)
        return np.where(sequences.is_null().to_numpy(), np.uint32(NEVER), rows)

    def _pools(self, blocks: pl.DataFrame) -> pl.DataFrame:
        """The pools in the order in which they are offered: those of frameworks first, then those with the most bytes."""
        sums = blocks.group_by(_PLACE).agg(pl.len(), bytes=pl.col("size").sum())
        order = [pl.col("pool") == Pool.HAL, pl.col("bytes"), *_PLACE]
        return sums.sort(order, descending=[False, True, False, False]).with_row_index("number")

    @staticmethod
    def _ordered(blocks: pl.DataFrame, pools: pl.DataFrame) -> pl.DataFrame:
        """The needed columns of the blocks, pool by pool, each in the order of their begins."""
        keys = blocks.select(*_PLACE, "malloc_sequence").join(
            pools.select(*_PLACE, "number"), on=_PLACE, how="left", maintain_order="left"
        )
        order = keys.select(pl.arg_sort_by("number", "malloc_sequence", maintain_order=True)).to_series()
        return blocks.select(_NEEDED)[order]

    def _put_blocks(self, blocks: pl.DataFrame, pools: pl.DataFrame) -> tuple[Numbers, Numbers]:
        put = self._writer.put
        begins, ends = self._rows(blocks["malloc_sequence"]), self._rows(blocks["free_sequence"])
        put("blocks/begin_rows", begins)
        put("blocks/end_rows", ends)
        put("blocks/sizes", blocks["size"].to_numpy())
        put("blocks/addresses", blocks["address"].to_numpy())
        put("blocks/requested", blocks["requested_bytes"].fill_null(-1).to_numpy())
        put("blocks/pools", np.repeat(np.arange(len(pools), dtype=np.uint16), pools["len"].to_numpy()))
        put("blocks/sequences", blocks["malloc_sequence"].to_numpy())
        put("blocks/free_threads", blocks["free_thread_id"].fill_null(0).to_numpy())
        self._returned = self._rows(blocks["returned_sequence"])
        put("blocks/returned_rows", self._returned)
        self._held_devices = self._put_witnesses(blocks)
        return begins, ends

    def _put_witnesses(self, blocks: pl.DataFrame) -> set[int]:
        """For each block of the driver, one block of a pool that lay in it: then it is the pool's. Returns the devices of those."""
        driver = (pl.col("pool") == Pool.HAL) & (pl.col("device") >= 0)
        numbered = blocks.lazy().with_row_index("number")
        pooled = numbered.filter(pl.col("pool").is_in(POOLS_WITH_RESERVE) & (pl.col("device") >= 0))
        plain = ("device", "address", "size")
        rows = (
            pl.concat(
                [
                    numbered.filter(driver).select(
                        "number", *plain, sequence="malloc_sequence", kind=pl.lit(int(EventKind.MALLOC), pl.UInt8)
                    ),
                    numbered.filter(driver & pl.col("free_sequence").is_not_null()).select(
                        "number", *plain, sequence="free_sequence", kind=pl.lit(int(EventKind.FREE), pl.UInt8)
                    ),
                    pooled.select(
                        "number",
                        *plain,
                        sequence="malloc_sequence",
                        kind=pl.lit(int(EventKind.ACCESS_UNKNOWN), pl.UInt8),
                    ),
                ]
            )
            .with_columns(pool=pl.lit(int(Pool.HAL), pl.UInt8), allocation_id=pl.lit(0, pl.UInt64))
            .sort("sequence")
            .collect()
        )
        witnesses = np.full(blocks.height, NEVER, dtype=np.uint32)
        held = (
            rows.with_columns(holder=block_sequences(rows))
            .filter((pl.col("kind") == EventKind.ACCESS_UNKNOWN) & (pl.col("holder") != 0))
            .unique("holder", keep="first", maintain_order=True)
        )
        holders = held.join(
            rows.filter(pl.col("kind") == EventKind.MALLOC).select(holder="sequence", of="number"),
            on="holder",
            how="left",
            maintain_order="left",
        )
        witnesses[holders["of"].to_numpy()] = holders["number"].to_numpy()
        self._writer.put("blocks/witnesses", witnesses)
        return set(holders["device"])

    def _groupings(self, blocks: pl.DataFrame, stacks: _Stacks) -> Iterator[_Grouping]:
        """Each way in which blocks can be put together; one that puts all of them into one is left out."""
        owners = _coded(blocks["owner"])
        yield _relabelled(_Grouping("owner", *owners), without_module)
        # A stack names the site and the operator; there are far fewer of them than blocks.
        yield _Grouping("site", *_coded(stacks.table["site"])).of(stacks.codes)
        names = stacks.table["operator"].fill_null(OUTSIDE_OPERATORS).str.strip_prefix(_OPERATORS)
        yield _Grouping("operator", *_coded(names)).of(stacks.codes)
        module = _relabelled(_Grouping("module", *owners), _module)
        if len(module.labels) > 1:
            yield module
        if blocks["stream_id"].null_count() < blocks.height:
            yield _numbered("stream", blocks["stream_id"], NO_STREAM)
        yield _numbered("thread", blocks["thread_id"], "(unknown thread)")

    def _put_owner_tree(self, owners: _Grouping) -> None:
        builder = PathTreeBuilder()
        leaves = [builder.add(label.split(SEPARATOR)) for label in owners.labels]
        self._put_tree("owner", builder.tree(), np.array(leaves, dtype=np.uint32))

    def _stacks(self, blocks: pl.DataFrame) -> _Stacks:
        """The different stacks that blocks were allocated under."""
        used = blocks.select(STACK_COLUMNS).unique(maintain_order=True).with_row_index("code")
        keys = list(STACK_COLUMNS)
        codes = blocks.select(keys).join(used, on=keys, how="left", maintain_order="left")["code"]
        table = (
            used.join(call_sites(self._recording, used), on=keys, how="left", maintain_order="left")
            .join(
                self._recording.strings.select(name_id="id", operator="text"),
                on="name_id",
                how="left",
                maintain_order="left",
            )
            .with_columns(pl.col("site", "site_path").fill_null(NO_CALL_SITE))
        )
        return _Stacks(codes.to_numpy(), table)

    def _put_stacks(self, blocks: pl.DataFrame, stacks: _Stacks) -> None:
        """The stacks, where blocks were freed, and the trees of them."""
        put, table = self._writer.put, stacks.table
        put("blocks/stacks", stacks.codes)
        for name in STACK_COLUMNS[:2]:
            put(f"stacks/{name}", table[name].to_numpy())
            put(f"blocks/free_{name}", blocks[f"free_{name}"].fill_null(0).to_numpy())
        put("stacks/name_id", table["name_id"].to_numpy())
        self._writer.put_texts("stacks/operators", table["operator"])
        texts = {"python": self._recording.python_stacks, "native": self._recording.native_stacks}
        for name, known in texts.items():
            ordered = known.sort("id")
            put(f"texts/{name}/ids", ordered["id"].to_numpy())
            self._writer.put_texts(f"texts/{name}/texts", ordered["text"].fill_null(""))
        python, native = (dict(known.iter_rows()) for known in texts.values())
        of_program, of_all = PathTreeBuilder(), PathTreeBuilder()
        program_leaves, all_leaves = [], []
        for python_id, native_id, path, name in table.select(*STACK_COLUMNS[:2], "site_path", "operator").iter_rows():
            operator = [name.removeprefix(_OPERATORS)] if name else []
            called = operator if name != path else []
            program_leaves.append(of_program.add([*_outermost_first(path.split("\n")), *called]))
            frames = (python.get(python_id) or native.get(native_id) or "").splitlines()
            all_leaves.append(of_all.add([*_outermost_first(frames), *operator] or [NO_CALL_SITE]))
        self._put_tree("program", of_program.tree(), np.array(program_leaves, dtype=np.uint32))
        self._put_tree("all", of_all.tree(), np.array(all_leaves, dtype=np.uint32))

    def _put_tree(self, name: str, tree: PathTree, leaves: Numbers) -> None:
        for part in ("names", "parents", "depths"):
            self._writer.put(f"trees/{name}/{part}", getattr(tree, part))
        self._writer.put(f"trees/{name}/leaves", leaves)
        self._writer.put_texts(f"trees/{name}/labels", tree.labels)

    def _put_pool(
        self,
        number: int,
        pool: dict[str, Any],
        part: slice,
        lives: tuple[Numbers, Numbers, Numbers],
        groupings: list[_Grouping],
    ) -> dict[str, Any]:
        """Everything about one pool; returns the facts about it."""
        begins, ends, sizes = lives
        device, word = pool["device"], pool_word(pool["pool"], pool["device"])
        freed = np.flatnonzero(ends != NEVER)
        rows = np.concatenate([begins, ends[freed]])
        order = np.argsort(rows, kind="stable")
        rows = rows[order]
        changes = np.concatenate([sizes, -sizes[freed]])[order]
        changed = np.concatenate([np.arange(len(begins)), freed])[order]
        in_use = np.concatenate([[0], np.cumsum(changes)])
        put = self._writer.put
        put(f"pools/{number}/rows", rows)
        put(f"pools/{number}/in_use", in_use)
        for grouping in groupings:
            codes, count = grouping.codes[part][changed], len(grouping.labels)
            self._put_group_totals(f"pools/{number}/{grouping.name}", codes, changes, count)
        put(f"pools/{number}/ranks", self._ranks(begins, ends, sizes))
        peak = int(in_use.argmax())
        reserved = self._put_reserved(number, device, pool["pool"])
        returned = self._returned[part]
        addresses = self._address_range(part, sizes)
        return {
            "name": f"{device_name(device)} {word}",
            "device": device_name(device),
            "word": word,
            "device_number": device,
            "pool_number": pool["pool"],
            "offset": part.start,
            "block_count": part.stop - part.start,
            "peak_bytes": int(in_use[peak]),
            "peak_row": int(rows[peak - 1]) if peak else -1,
            "has_reserved": reserved,
            "has_waiting": bool((returned != ends).any()),
            "has_segments": pool["pool"] in POOLS_WITH_RESERVE and device in self._held_devices,
            **addresses,
        }

    def _address_range(self, part: slice, sizes: Numbers) -> dict[str, int]:
        addresses = self._addresses[part]
        if not len(addresses):
            return {"base_address": 0, "address_bytes": 0}
        base = int(addresses.min())
        return {"base_address": base, "address_bytes": int((addresses - np.uint64(base)).max()) + int(sizes.max())}

    def _put_group_totals(self, name: str, codes: Numbers, changes: Numbers, count: int) -> None:
        """The running total of each group: the changes of the pool that change it, and its value after each."""
        order = np.argsort(codes, kind="stable")
        ordered = codes[order]
        totals = np.cumsum(changes[order])
        offsets = np.searchsorted(ordered, np.arange(count + 1))
        before = np.concatenate([[0], totals])[offsets[:-1]]
        self._writer.put(f"{name}/offsets", offsets.astype(np.int64))
        self._writer.put(f"{name}/positions", order.astype(np.uint32))
        self._writer.put(f"{name}/totals", totals - np.repeat(before, np.diff(offsets)))

    def _ranks(self, begins: Numbers, ends: Numbers, sizes: Numbers) -> Numbers:
        """The blocks of a pool, the one that fills the most of a picture first."""
        last = len(self._axis.sequences)
        until = np.minimum(ends, last)
        if self._axis.is_time:
            moments = np.append(self._axis.moments, self._axis.length)
            lasted = moments[until] - moments[np.minimum(begins, last)] + 1.0
        else:
            lasted = until.astype(np.float64) - begins + 1.0
        return np.argsort(-(lasted * sizes), kind="stable").astype(np.uint32)

    def _put_reserved(self, number: int, device: int, pool: int) -> bool:
        reports = self._reserved.filter((pl.col("device") == device) & (pl.col("pool") == pool))
        self._writer.put(f"pools/{number}/reserved/rows", reports["row"].to_numpy())
        self._writer.put(f"pools/{number}/reserved/bytes", np.concatenate([[-1], reports["size"].to_numpy()]))
        return not reports.is_empty()

    def _put_steps(self, number: int, device: int, numbers: pl.DataFrame) -> None:
        bounds = self._steps.of(device)
        self._writer.put(f"pools/{number}/steps/begin_rows", self._rows(pl.Series(bounds.begins, dtype=pl.UInt64)))
        ends = np.full(len(bounds.begins), NEVER, dtype=np.uint32)
        ends[: len(bounds.ends)] = self._rows(pl.Series(bounds.ends, dtype=pl.UInt64))
        self._writer.put(f"pools/{number}/steps/end_rows", ends)
        named = pl.DataFrame({"begin_sequence": pl.Series(bounds.begins, dtype=pl.UInt64)}).join(
            numbers, on="begin_sequence", how="left", maintain_order="left"
        )
        self._writer.put(f"pools/{number}/steps/numbers", named["number"].fill_null(-1).to_numpy())

    def _put_marks(self) -> None:
        """The events on the curves: marks, snapshots and failed allocations, with their rows."""
        events, strings = self._recording.events, self._recording.strings.select(name_id="id", text="text")
        failed = failed_attempts(self._recording).filter(~pl.col("is_served"))
        found = {
            "marks": events.filter(pl.col("kind") == EventKind.MARK),
            "snapshots": events.filter(pl.col("kind") == EventKind.SNAPSHOT),
            "failures": failed.unique("call", keep="last", maintain_order=True),
        }
        for name, part in found.items():
            named = part.join(strings, on="name_id", how="left", maintain_order="left")
            self._writer.put(f"marks/{name}/rows", self._rows(part["sequence"]))
            self._writer.put(f"marks/{name}/sizes", part["size"].to_numpy())
            self._writer.put(f"marks/{name}/devices", part["device"].to_numpy())
            self._writer.put_texts(f"marks/{name}/texts", named["text"].fill_null(""))


def _coded(texts: pl.Series) -> tuple[Numbers, pl.Series]:
    """A number for each text, and the texts by number, in the order in which they come first."""
    labels = texts.unique(maintain_order=True)
    table = pl.DataFrame({"text": labels}).with_row_index("code")
    codes = texts.to_frame("text").join(table, on="text", how="left", maintain_order="left", nulls_equal=True)["code"]
    return codes.to_numpy(), labels


def _numbered(name: str, numbers: pl.Series, unknown: str) -> _Grouping:
    """A group for each number."""
    known = numbers.unique(maintain_order=True)
    table = pl.DataFrame({"number": known}).with_row_index("code")
    codes = numbers.to_frame("number").join(table, on="number", how="left", maintain_order="left", nulls_equal=True)[
        "code"
    ]
    labels = pl.Series([unknown if one is None else f"{name} {one}" for one in known], dtype=pl.String)
    return _Grouping(name, codes.to_numpy(), labels)


def _relabelled(grouping: _Grouping, label: Callable[[str], str]) -> _Grouping:
    """The same blocks under other labels; several labels may be the same."""
    codes, labels = _coded(pl.Series([label(text) for text in grouping.labels], dtype=pl.String))
    return _Grouping(grouping.name, codes[grouping.codes], labels)


def _module(owner: str) -> str:
    """The part of an owner that names the module which holds it; see `without_module`."""
    kept = set(without_module(owner).split(SEPARATOR))
    parts = [part for part in owner.split(SEPARATOR) if part not in kept]
    return SEPARATOR.join(part[1:-1] for part in parts) or NO_MODULE


def _outermost_first(frames: list[str]) -> list[str]:
    if len(frames) <= _MOST_FRAMES:
        return frames[::-1]
    return [f"({len(frames) - _MOST_FRAMES} frames)", *frames[:_MOST_FRAMES][::-1]]
