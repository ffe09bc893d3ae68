"""The words of findings about host memory that grows outside of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msmemscope.analysis.host.host_samples import TENSORS, THREADS
from msmemscope.analysis.host.pinned_settings import COMMON
from msmemscope.units import format_bytes, format_count

if TYPE_CHECKING:
    from msmemscope.analysis.host.copied_pages import CopiedPages
    from msmemscope.analysis.leaks.host_growth import HostGrowth
    from msmemscope.analysis.leaks.pinned_growth import PinnedGrowth

OTHER_HOST_MEMORY: Final = "outside of tensors: Python objects or native libraries, whose allocations are not observed"
"""The possible causes of host memory that grows without tensors, where nothing was sampled."""
ANY_HOST_MEMORY: Final = "CPU tensors, Python objects or native libraries, whose allocations are not observed"
"""The same where CPU tensors are not recorded."""
UNEXPLAINED_HOST_MEMORY: Final = "sampled allocations explain little of it"
"""The words where samples name no line."""
KEPT_FREE: Final = "freed, and kept by the C library in gaps between other blocks"
"""The words for memory that the allocator keeps."""
_NEARLY_ALL: Final = 0.95
"""Of the growth, that is kept free where no part of it is named."""
KEPT_FREE_REMEDY: Final = (
    "Call malloc_trim(0) of the C library now and then: it gives whole pages back. "
    "If many threads take memory, MALLOC_ARENA_MAX=2 can do, too."
)
"""The advice about that."""
HOST_MEMORY_REMEDY: Final = "Keep less there, or clear it now and then: what that line makes only adds up."
"""The advice about a line that makes memory which stays."""
THREADS_REMEDY: Final = (
    "Let such threads end and join them, or take them from a pool of a fixed size: each keeps its stack."
)
"""The advice about a line that starts threads which stay."""
TENSORS_REMEDY: Final = "Keep less there, or clear it now and then. Add cpu to --device: then each of these tensors is recorded, with its holder."
"""The advice about CPU tensors that are sampled alone."""
CONTAINER_REMEDY: Final = "Remove its entries when they are done with, or give it a bound: so far it only grows."
"""The advice about a container that keeps it."""
SHARED_REMEDY: Final = "Close each segment and unlink it when it is done with: until then all of it stays in memory."
"""The advice about shared memory and files in memory."""

COPIED_REMEDY: Final = "Keep such data as one array, tensor or buffer of bytes: forked processes go on to share it."
"""The advice about memory that forked processes copy by reading."""


def pinned_setting(variable: str, setting: str) -> str:
    """Return a setting of pinned memory as one writes it, and the versions that know it where not all do.

    Args:
        variable: By `pinned_settings`.
        setting: Its name and value.
    """
    return f"{variable}={setting}{' (PyTorch 2.13 or later)' if variable == COMMON else ''}"


def pinned_growth_remedy(found: PinnedGrowth) -> str:
    """Return the advice about pinned memory that grows."""
    setting = pinned_setting(found.settings_variable, "pinned_max_cached_size_mb:1")
    return f"Copy to memory that is not pinned, pin one buffer for all, or set {setting}."


def copied_words(found: CopiedPages) -> str:
    """Return how a forked process got memory of its parent, and which container it reads."""
    one = found.container
    return (
        "copied from the process that forked this one: to read Python objects writes their reference counts, "
        f"held by {one.held_by} ({one.kind}, {format_count(one.entries)} entries, {format_bytes(one.total_bytes)})"
    )


def host_growth_remedy(found: HostGrowth) -> str:
    """Return the advice that fits; empty where nothing is known that would help."""
    if found.is_kept_free:
        return KEPT_FREE_REMEDY
    if found.is_shared:
        return SHARED_REMEDY
    if found.site is not None and found.site.what == THREADS:
        return THREADS_REMEDY
    if found.site is not None and found.site.what == TENSORS and found.container is None:
        return TENSORS_REMEDY
    if found.container is not None:
        return CONTAINER_REMEDY
    return HOST_MEMORY_REMEDY if found.site is not None else ""


def host_growth_words(found: HostGrowth) -> str:
    """Return when host memory grew and what it is: findings say this behind the bytes and the line."""
    when = f"in steps {found.first_step} to {found.last_step}" if found.is_over_steps else "over the run"
    if found.is_kept_free:
        is_all = found.kept_free_bytes >= _NEARLY_ALL * found.growth_bytes
        return f"{when}, {'' if is_all else f'{format_bytes(found.kept_free_bytes)} of it '}{KEPT_FREE}"
    held = f", held by {found.container.words}" if found.container is not None else ""
    outside = ", outside of tensors" if found.are_tensors_recorded else ""
    if found.site is not None:
        live = format_bytes(found.site.live_bytes)
        return f"{when}{outside}: about {live} of that line are alive, {found.site.what}{held}"
    if held:
        return f"{when}{outside}{held}"
    if found.is_sampled:
        return f"{when}{outside}: {UNEXPLAINED_HOST_MEMORY}"
    return f"{when}, {OTHER_HOST_MEMORY if found.are_tensors_recorded else ANY_HOST_MEMORY}"
