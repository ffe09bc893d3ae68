"""Which lines made host memory that stays: from samples of the allocations of the whole process.

A sample stands for as many bytes as were allocated around it on average. So sums of samples are estimates: of n samples
of small blocks the error is about 1 in the square root of n. Memory of modules and libraries that are imported is set up once, and is
left out.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.analysis.host.host_figures import parts_in_memory
from msmemscope.model.events import EventKind
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites
from msmemscope.recording.once_per_recording import once_per_recording
from msmemscope.recording.source_lines import line_and_library

if TYPE_CHECKING:
    from typing import TypeAlias

    from msmemscope.recording import Recording

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

NEVER: Final = np.iinfo(np.uint64).max
"""`end_sequence` of a block that was not freed."""
PYTHON_OBJECTS: Final = "Python objects"
NUMPY_ARRAYS: Final = "NumPy arrays"
NATIVE_MEMORY: Final = "native memory"
THREADS: Final = "threads"
SHARED_MEMORY: Final = "shared memory"
TENSORS: Final = "CPU tensors"
_KIND_OF_FUNCTION: Final = {
    "pthread_create": THREADS, "mmap(MAP_SHARED)": SHARED_MEMORY, "c10::alloc_cpu": TENSORS,
}  # fmt: skip
"""Of functions that say what the memory is, whoever calls them."""

_LEAST_OF_USUAL: Final = 1 / 4
"""Of the size of the block that half of the bytes are in larger ones than: others are by-products."""
_IMPORTING: Final = "<frozen importlib._bootstrap"
_MODULE: Final = re.compile(r"(?:.*/)?([^/(]+)\(")
_PASSED_ON: Final = re.compile(r"lib(?:c|stdc\+\+|m|pthread|gcc_s)[-.]|ld-linux")
"""Libraries that allocate for others: the C and the C++ library."""
_CALLED_BY_CTYPES: Final = re.compile(r"libffi[-.]|_ctypes\.|_cffi_backend\.")
_INTERPRETER: Final = re.compile(
    r"libpython|python[0-9.]*t?$|_(?:pickle|json|datetime|struct|collections|asyncio|elementtree)\."
)
_NUMPY: Final = re.compile(
    r"_multiarray_umath|_umath_linalg|lapack_lite|_(?:generator|mt19937|bounded_integers|common|pcg64)\."
)


@dataclasses.dataclass(frozen=True)
class HostSite:
    """One line of the program, and the live part of the memory that it allocated."""

    site: str
    """The line as findings show it, with that of a library behind it."""
    live_bytes: int
    """An estimate."""
    samples: int
    what: str
    """`Python objects`, `NumPy arrays`, `threads`, `shared memory`, `CPU tensors` (where the CPU is left out) or
    `native memory of libX.so`: most of it."""


@dataclasses.dataclass(frozen=True)
class HostSamples:
    """The samples of a process."""

    rows: pl.DataFrame
    """One per sample in the order of their records: `sequence`, `timestamp_ns`, STACK_COLUMNS, and these columns.

    - `size`: of its block, as far as it is in memory;
    - `bytes`: those that it stands for, so far;
    - `end_sequence`: NEVER if it was not freed;
    - `function_kind`: empty where the function does not say it.
    """

    @classmethod
    def of(cls, recording: Recording) -> HostSamples:
        """Pair the samples of a recording with their ends; none if it has no samples."""
        return cls(_samples_of(recording))

    def alive(self, after: int, until: int) -> HostSamples:
        """Choose those that were made behind one event, and were alive at another.

        Args:
            after: Number of the first event.
            until: Of the second.
        """
        return HostSamples(
            self.rows.filter(
                (pl.col("sequence") > after) & (pl.col("sequence") <= until) & (pl.col("end_sequence") > until)
            )
        )

    def without_imports(self, recording: Recording) -> HostSamples:
        """Leave out allocations while modules are imported."""
        return HostSamples(self.rows.filter(~pl.col("python_stack_id").is_in(_importing_stacks(recording).implode())))

    def of_shared_memory(self) -> HostSamples:
        """Choose those of memory that processes share, and of files in memory."""
        return HostSamples(self.rows.filter(pl.col("function_kind") == SHARED_MEMORY))

    def of_private_memory(self) -> HostSamples:
        """Choose those of all other memory."""
        return HostSamples(self.rows.filter(pl.col("function_kind") != SHARED_MEMORY))

    @property
    def total_bytes(self) -> int:
        """Of all of them: an estimate."""
        return int(self.rows["bytes"].sum())

    @property
    def error_bytes(self) -> int:
        """The standard error of `total_bytes`.

        A block of s bytes that stands for e was sampled with a chance of s / e. So it adds e (e - s) to the variance
        (Horvitz and Thompson, 1952). That is 0 where each allocation is recorded.
        """
        stands_for, size = (self.rows[column].cast(pl.Float64) for column in ("bytes", "size"))
        return int((stands_for * (stands_for - size).clip(0)).sum() ** 0.5)

    @property
    def block_count(self) -> tuple[float, float]:
        """How many blocks they stand for, and the standard error of that. Blocks far smaller than most bytes are left out."""
        if self.rows.is_empty():
            return 0.0, 0.0
        by_size = self.rows.select("size", "bytes").sort("size", descending=True)
        usual = int(by_size.filter(pl.col("bytes").cum_sum() * 2 >= pl.col("bytes").sum())["size"][0])
        counted = by_size.filter(pl.col("size") >= _LEAST_OF_USUAL * usual)
        weights = (counted["bytes"] / counted["size"].clip(1)).clip(1)
        # A block that was sampled with a chance of p stands for 1 / p.
        return float(weights.sum()), float((weights * (weights - 1)).sum()) ** 0.5

    def as_blocks(self) -> pl.DataFrame:
        """Return them as blocks: `malloc_sequence`, `free_sequence` (null if not freed), `size`."""
        return self.rows.select(
            malloc_sequence="sequence", free_sequence=pl.col("end_sequence").replace(NEVER, None), size="bytes"
        )

    def by_kind(self, recording: Recording) -> dict[str, HostSamples]:
        """Group them by the kind of their memory, as `HostSite.what` names it.

        Args:
            recording: Where stacks are looked up.
        """
        native = dict(recording.native_stacks.iter_rows())
        stacks = self.rows.select("native_stack_id", "function_kind").unique()
        kinds = [kind or _kind_of(native.get(stack) or "") for stack, kind in stacks.iter_rows()]
        rows = self.rows.join(
            stacks.with_columns(kind=pl.Series(kinds, dtype=pl.String)),
            on=["native_stack_id", "function_kind"],
            how="left",
            maintain_order="left",
        )
        parts = rows.partition_by("kind", as_dict=True, include_key=False)
        return {str(kind): HostSamples(part) for (kind,), part in sorted(parts.items())}

    def most_alive(self) -> int:
        """Return the number of the sample behind which most bytes are alive; 0 without samples."""
        if self.rows.is_empty():
            return 0
        ended = self.rows.filter(pl.col("end_sequence") < NEVER)
        moments = np.concatenate([self.rows["sequence"].to_numpy(), ended["end_sequence"].to_numpy()])
        changes = np.concatenate([self.rows["bytes"].to_numpy(), -ended["bytes"].to_numpy()])
        order = np.argsort(moments, kind="stable")
        return int(moments[order][np.cumsum(changes[order]).argmax()])

    def of_line(self, recording: Recording, site: HostSite) -> HostSamples:
        """Choose those of the line of a site; none if there are none."""
        line, _ = line_and_library(site.site)
        found = (part for one, part in self.by_line(recording) if line_and_library(one.site)[0] == line)
        return next(found, HostSamples(self.rows.clear()))

    def by_line(self, recording: Recording) -> list[tuple[HostSite, HostSamples]]:
        """Group them by the line of the program, the largest first.

        Args:
            recording: Where stacks are looked up.
        """
        sites = call_sites(recording, self.rows).select(*STACK_COLUMNS, "site")
        rows = self.rows.join(sites, on=list(STACK_COLUMNS), how="left", maintain_order="left").with_columns(
            line=pl.col("site").map_elements(lambda site: line_and_library(site)[0], return_dtype=pl.String)
        )
        native = dict(recording.native_stacks.iter_rows())
        found = []
        for _, part in rows.group_by("line", maintain_order=True):
            worst = part.group_by("site", maintain_order=True).agg(pl.col("bytes").sum()).sort("bytes", descending=True)
            site = HostSite(str(worst["site"][0]), int(part["bytes"].sum()), part.height, _most_of(part, native))
            found.append((site, HostSamples(part.select(self.rows.columns))))
        return sorted(found, key=lambda pair: -pair[0].live_bytes)


@once_per_recording
def _importing_stacks(recording: Recording) -> pl.Series:
    return recording.python_stacks.filter(pl.col("text").str.contains(_IMPORTING, literal=True))["id"]


@once_per_recording
def _samples_of(recording: Recording) -> pl.DataFrame:
    """The rows of `HostSamples`."""
    kind, events = pl.col("kind"), recording.events
    begun = events.filter((kind == EventKind.HOST_SAMPLE) & (pl.col("extra") > 0))
    ended = events.filter(kind == EventKind.HOST_SAMPLE_FREE).select(
        sequence="extra", end_sequence=pl.col("sequence").cast(pl.UInt64), at_end=pl.col("size")
    )
    functions = recording.strings.filter(pl.col("text").is_in(list(_KIND_OF_FUNCTION)))
    kinds = {number: _KIND_OF_FUNCTION[text] for number, text in functions.select("id", "text").iter_rows()}
    rows = begun.join(ended.unique("sequence", keep="first"), on="sequence", how="left", maintain_order="left")
    rows = rows.join(parts_in_memory(recording), on="sequence", how="left", maintain_order="left")
    # The later one counts: what was touched stays in memory.
    resident = pl.min_horizontal("size", pl.coalesce("at_end", "resident", "size"))
    share = resident / pl.col("size").clip(1)
    return rows.select(
        pl.col("sequence").cast(pl.UInt64),
        "timestamp_ns",
        resident.alias("size"),
        (pl.col("extra") * share).round().cast(pl.Int64).alias("bytes"),
        pl.col("end_sequence").fill_null(NEVER),
        *STACK_COLUMNS[:2],
        pl.lit(0, dtype=pl.UInt32).alias("name_id"),  # the function that allocates is no operator
        pl.col("name_id").replace_strict(kinds, default="", return_dtype=pl.String).alias("function_kind"),
    )


def _most_of(part: pl.DataFrame, native_stacks: dict[int, str]) -> str:
    sums = part.group_by("native_stack_id", "function_kind").agg(pl.col("bytes").sum())
    by_kind: dict[str, int] = {}
    for stack, kind, size in sums.iter_rows():
        what = kind or _kind_of(native_stacks.get(stack) or "")
        by_kind[what] = by_kind.get(what, 0) + size
    return max(sorted(by_kind), key=lambda what: by_kind[what])


def _kind_of(native_stack: str) -> str:
    """The kind of the memory, by the innermost library that allocates for itself."""
    modules = (match[1] for match in map(_MODULE.match, native_stack.splitlines()) if match is not None)
    module = next((name for name in modules if not _PASSED_ON.match(name)), "")
    if _NUMPY.search(module):
        return NUMPY_ARRAYS
    if _INTERPRETER.match(module):
        return PYTHON_OBJECTS
    return f"{NATIVE_MEMORY} of {module}" if module and not _CALLED_BY_CTYPES.match(module) else NATIVE_MEMORY
