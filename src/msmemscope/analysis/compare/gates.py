"""Conditions under which a comparison is a failure, such as `peak>5%`: for pipelines that guard a job's memory."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.errors import UsageError
from msmemscope.model.devices import DEVICE_CPU, device_name
from msmemscope.units import format_bytes, parse_size_bytes

if TYPE_CHECKING:
    from msmemscope.analysis.compare.comparison import Comparison

ACCEPTED: Final = (
    "peak>5%, peak>100M, net>1G, host>5%: the growth of a device's peak, of its net change, or of the resident host "
    "memory, in percent or as a size"
)
_CONDITION: Final = re.compile(r"\s*(peak|net|host)\s*>\s*(?:(\d+(?:\.\d+)?)\s*%|([0-9]+\s*[A-Za-z]*))\s*")


@dataclasses.dataclass(frozen=True)
class Gate:
    """One condition."""

    text: str
    """As it was given."""
    measure: str
    """`peak`: how much higher the second run's peak is. `net`: how much more its operators or kernels keep in sum.

    `host`: how much higher the peak of its resident host memory is.
    """
    limit_bytes: int | None
    """The growth that is still accepted, as a size."""
    limit_ratio: float | None
    """Or in parts of the first run's value."""

    def failures(self, comparison: Comparison) -> list[str]:
        """Return one line per device on which the second run has grown more than is accepted, or why that is not known."""
        if self.measure == "host" and comparison.host_bytes is None:
            return [f"{self.text}: a run has no figure of its resident host memory, or a step was chosen"]
        lines = []
        for device, base, other in _values(comparison, self.measure):
            growth = other - base
            limit = self.limit_bytes if self.limit_bytes is not None else (self.limit_ratio or 0.0) * abs(base)
            if growth > limit:
                what = "resident host memory" if self.measure == "host" else f"{self.measure} on {device_name(device)}"
                lines.append(
                    f"{self.text}: {what} grew by {format_bytes(growth)}, from "
                    f"{format_bytes(base)} to {format_bytes(other)}"
                )
        return lines


def parse_gate(text: str, *, option: str) -> Gate:
    """Read a condition.

    Args:
        text: The text that the user wrote.
        option: The option that it was written for, named in the error.

    Raises:
        UsageError: If it is no condition.
    """
    match = _CONDITION.fullmatch(text)
    if match is None:
        message = "not a condition"
        raise UsageError(message, option=option, value=text, accepted=ACCEPTED)
    measure, percent, size = match.groups()
    if percent is not None:
        return Gate(text.strip(), measure, None, float(percent) / 100)
    return Gate(text.strip(), measure, parse_size_bytes(size.replace(" ", ""), option=option), None)


def _values(comparison: Comparison, measure: str) -> list[tuple[int, int, int]]:
    """The device, the first run's value and the second's."""
    if measure == "peak":
        return [(peak.device, peak.base_bytes, peak.compare_bytes) for peak in comparison.peaks]
    if measure == "host":
        return [] if comparison.host_bytes is None else [(DEVICE_CPU, *comparison.host_bytes)]
    sums = comparison.rows.group_by("device", maintain_order=True).agg(pl.col("base_bytes", "compare_bytes").sum())
    return [(row["device"], row["base_bytes"], row["compare_bytes"]) for row in sums.iter_rows(named=True)]
