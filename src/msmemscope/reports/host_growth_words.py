"""The words of findings about host memory that grows outside of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msmemscope.units import format_bytes

if TYPE_CHECKING:
    from msmemscope.analysis.leaks.host_growth import HostGrowth

OTHER_HOST_MEMORY: Final = "outside of tensors: Python objects or native libraries, whose allocations are not observed"
"""The possible causes of host memory that grows without tensors, where nothing was sampled."""
UNEXPLAINED_HOST_MEMORY: Final = (
    "outside of tensors: sampled allocations explain little of it, as of memory that is freed and kept by the C library"
)
"""The same where samples name no line."""
HOST_MEMORY_REMEDY: Final = "Keep less there, or clear it now and then: what that line makes only adds up."
"""The advice about a line that makes memory which stays."""


def host_growth_words(found: HostGrowth) -> str:
    """Return when host memory grew and what it is: findings say this behind the bytes and the line."""
    when = f"in steps {found.first_step} to {found.last_step}" if found.is_over_steps else "over the run"
    if found.site is not None:
        live = format_bytes(found.site.live_bytes)
        return f"{when}, outside of tensors: about {live} of that line are alive, {found.site.what}"
    return f"{when}, {UNEXPLAINED_HOST_MEMORY if found.is_sampled else OTHER_HOST_MEMORY}"
