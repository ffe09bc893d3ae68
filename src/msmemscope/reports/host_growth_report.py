"""Memory of the host that grows without tensors of the cpu, for a terminal, a pipe or a log file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msmemscope.reports.host_growth_words import (
    COPIED_REMEDY,
    copied_words,
    host_growth_words,
    pinned_growth_remedy,
)
from msmemscope.units import format_bytes

if TYPE_CHECKING:
    from msmemscope.analysis.host.copied_pages import CopiedPages
    from msmemscope.analysis.leaks.host_growth import HostGrowth
    from msmemscope.analysis.leaks.pinned_growth import PinnedGrowth
    from msmemscope.reports.report_text import ReportWriter

KEPT_PINNED_MEMORY: Final = "pinned: torch's allocator gives none of it back, so that sizes which come once add up"
"""The explanation of pinned memory that grows."""


def write_pinned_growth(writer: ReportWriter, found: PinnedGrowth | None) -> None:
    """Write by how much pinned memory grew, if it did."""
    if found is not None:
        writer.sentence(
            f"Host memory grew by {format_bytes(found.growth_bytes)} in steps {found.first_step} to {found.last_step}, "
            f"{format_bytes(found.bytes_per_step)} per step, at {found.site}, {KEPT_PINNED_MEMORY}. "
            f"{pinned_growth_remedy(found)}",
            indent=0,
        )


def write_copied_pages(writer: ReportWriter, found: CopiedPages | None) -> None:
    """Write how much a forked process copied of its parent's memory, if that is much."""
    if found is not None:
        writer.sentence(
            f"Host memory: {format_bytes(found.copied_bytes)} {copied_words(found)}. {COPIED_REMEDY}", indent=0
        )


def write_host_growth(writer: ReportWriter, found: HostGrowth | None) -> None:
    """Write by how much the host's other memory grew, if it did."""
    if found is None or not found.is_growing:
        return
    at = f" at {found.site.site}" if found.site else ""
    pace = f", {format_bytes(found.bytes_per_step)} per step" if found.bytes_per_step else ""
    writer.sentence(
        f"Host memory grew by {format_bytes(found.growth_bytes)}{at}{pace}, {host_growth_words(found)}. "
        f"Resident at the end: {format_bytes(found.resident_bytes)} that belong to no file.",
        indent=0,
    )
