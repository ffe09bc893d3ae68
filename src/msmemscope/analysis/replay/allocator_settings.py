"""The settings of the caching allocators of torch and torch_npu, as people write them: `KEY:VALUE,...`.

Names, ranges and defaults are those of torch_npu 2.13 (PYTORCH_NPU_ALLOC_CONF) and torch.cuda 2.13 (PYTORCH_ALLOC_CONF).
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from typing import TYPE_CHECKING, Any, Final

from msmemscope.errors import ConfigurationError
from msmemscope.model.caching_allocator import SHARED_SEGMENT_BYTES
from msmemscope.model.devices import KIND_NAMES, DeviceKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NO_LIMIT: Final = (1 << 64) - 1
DEFAULT_DEVICE_BYTES: Final = 64 << 30
"""The memory of a device where neither the recording nor the user says it."""

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20
_GIB: Final = 1 << 30
_INTERVALS: Final = 16
"""Powers of two from 1 MiB to 64 GiB that `roundup_power2_divisions` has a value for each."""
_LEAST_SPLIT_MB: Final = 21
"""max_split_size_mb must be larger than a large segment."""


@dataclasses.dataclass(frozen=True)
class AllocatorSettings:
    """The settings that shape the memory of a caching allocator; sizes in bytes."""

    kind: DeviceKind
    """Whose allocator: torch_npu's or torch.cuda's."""
    is_expandable: bool = False
    most_split_bytes: int = NO_LIMIT
    most_unsplit_rest_bytes: int = SHARED_SEGMENT_BYTES
    power2_divisions: tuple[int, ...] = (0,) * _INTERVALS
    collection_threshold: float = 0.0
    large_segment_bytes: int = SHARED_SEGMENT_BYTES
    segment_bytes: int = SHARED_SEGMENT_BYTES
    """Of expandable segments, deprecated: `segment_size_mb`."""
    page_bytes: int = 2 * _MIB
    front_alignment_bytes: int = 16 * _KIB
    memory_fraction: float = 1.0
    padding_bytes: int | None = None
    """Added to each request; None for the usual bytes of the device."""
    device_bytes: int = DEFAULT_DEVICE_BYTES
    capacity_bytes: int | None = None
    """The driver's memory for this allocator, None for no limit."""
    address_order: int = 1
    """Where new segments lie: 0 in the highest gap, 1 in the lowest, 2 at addresses that always rise."""
    text: str = ""
    """The settings as they were given, `KEY:VALUE,...`: the environment variable takes them."""

    def for_model(self) -> dict[str, Any]:
        """Return the values that the native model takes."""
        is_npu = self.kind is DeviceKind.NPU
        chunk = self.large_segment_bytes
        if chunk == SHARED_SEGMENT_BYTES and is_npu:
            chunk = self.segment_bytes
        allowed = int(self.memory_fraction * self.device_bytes) if self.memory_fraction < 1.0 else NO_LIMIT
        padding = self.padding_bytes if self.padding_bytes is not None else 32 * is_npu
        return {
            "padding_bytes": padding,
            "large_segment_bytes": self.large_segment_bytes,
            "large_chunk_bytes": chunk,
            "page_bytes": self.page_bytes,
            "most_split_bytes": self.most_split_bytes,
            "most_unsplit_rest_bytes": self.most_unsplit_rest_bytes,
            "front_alignment_bytes": self.front_alignment_bytes if is_npu else 0,
            "power2_divisions": self.power2_divisions,
            "collection_threshold": self.collection_threshold,
            "allowed_bytes": allowed,
            "device_bytes": self.device_bytes,
            "driver_bytes": NO_LIMIT if self.capacity_bytes is None else self.capacity_bytes,
            "is_expandable": self.is_expandable,
            "address_order": self.address_order,
        }

    @property
    def environment_line(self) -> str:
        """The text for a shell to run with these settings; empty for the defaults."""
        return f"export {KIND_NAMES[self.kind].allocator_variable}={shlex.quote(self.text)}" if self.text else ""


def _whole(least: int, most: int, unit: int) -> Callable[[str], int]:
    """Read a whole number within bounds, in a unit of bytes."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) <= 12 and least <= int(text) <= most):  # noqa: PLR2004
            raise ValueError(f"a whole number from {least} to {most}")  # noqa: EM102, TRY003
        return int(text) * unit

    return read


def _switch(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError("True or False")  # noqa: EM101, TRY003
    return text.lower() == "true"


def _share(text: str) -> float:
    if not re.fullmatch(r"0(\.\d{1,9})?|1(\.0{1,9})?|\.\d{1,9}", text):
        raise ValueError("a number from 0 to 1")  # noqa: EM101, TRY003
    return float(text)


def _page(text: str) -> int:
    if text.lower() != "1g":
        raise ValueError("1g")  # noqa: EM101
    return _GIB


def _divisions(text: str) -> tuple[int, ...]:
    """A number for all sizes, or `[SIZE_MB:NUMBER,...,>:NUMBER]`: those of the sizes named, the first also below it."""
    accepted = "a power of two (0 to 64), or [256:1,512:2,>:8] with sizes in MiB that are powers of two"
    words = text.strip("[]").split(",") if text.startswith("[") else [text]
    pairs = [word.rpartition(":") for word in words]
    numbers = [number for _, _, number in pairs]
    if not all(re.fullmatch(r"\d{1,2}", number) for number in numbers):
        raise ValueError(accepted)
    if not all(int(number) & (int(number) - 1) == 0 and int(number) <= 64 for number in numbers):  # noqa: PLR2004
        raise ValueError(accepted)
    if not text.startswith("["):
        return (int(text),) * _INTERVALS
    found = [0] * _INTERVALS
    last = -1
    for size, _, number in pairs:
        if size == ">":
            found[last + 1 :] = [int(number)] * (_INTERVALS - last - 1)
            continue
        if not re.fullmatch(r"\d{1,6}", size) or int(size) == 0 or int(size) & (int(size) - 1):
            raise ValueError(accepted)
        index = min(int(size).bit_length() - 1, _INTERVALS - 1)
        if last < 0:
            found[:index] = [int(number)] * index
        found[index] = int(number)
        last = index
    return tuple(found)


_NPU_ONLY: Final = frozenset({"base_addr_aligned_kb", "page_size", "segment_size_mb"})
_SETTINGS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "base_addr_aligned_kb": ("front_alignment_bytes", _whole(0, 16, _KIB)),
    "expandable_segments": ("is_expandable", _switch),
    "garbage_collection_threshold": ("collection_threshold", _share),
    "large_segment_size_mb": ("large_segment_bytes", _whole(20, 1 << 20, _MIB)),
    "max_non_split_rounding_mb": ("most_unsplit_rest_bytes", _whole(21, 1 << 20, _MIB)),
    "max_split_size_mb": ("most_split_bytes", _whole(_LEAST_SPLIT_MB, 1 << 20, _MIB)),
    "page_size": ("page_bytes", _page),
    "per_process_memory_fraction": ("memory_fraction", _share),
    "roundup_power2_divisions": ("power2_divisions", _divisions),
    "segment_size_mb": ("segment_bytes", _whole(20, 512, _MIB)),
}
"""Key -> the field of AllocatorSettings, and the reader of its value; a ValueError names the accepted values."""


def read_settings(text: str, kind: DeviceKind, *, option: str = "--set") -> AllocatorSettings:
    """Read settings as the environment variable of torch has them; `KEY=VALUE` is accepted too.

    Args:
        text: `KEY:VALUE,...`; an empty one for the defaults.
        kind: Of the device: not all settings exist everywhere.
        option: For messages.

    Raises:
        ConfigurationError: A key or a value is not accepted, or two settings exclude each other.
    """
    known = sorted(key for key in _SETTINGS if kind is DeviceKind.NPU or key not in _NPU_ONLY)
    found: dict[str, Any] = {}
    words: dict[str, str] = {}
    for word in filter(None, (part.strip() for part in re.split(r",(?![^\[]*\])", text))):
        key, value = (part.strip() for part in [*re.split(r"[:=]", word, maxsplit=1), ""][:2])
        if key not in known:
            message = "no setting of this allocator that shapes memory"
            raise ConfigurationError(message, option=option, value=key, accepted=", ".join(known))
        field, read = _SETTINGS[key]
        try:
            found[field] = read(value)
        except ValueError as error:
            message = "not a value of this setting"
            raise ConfigurationError(message, option=option, value=word, accepted=f"{key}:{error}") from None
        words[key] = value
    if found.get("is_expandable") and {"max_split_size_mb", "garbage_collection_threshold"} & words.keys():
        message = "expandable_segments cannot be combined with max_split_size_mb or garbage_collection_threshold"
        raise ConfigurationError(message, option=option, value=text, accepted="one of them")
    return AllocatorSettings(kind, **found, text=",".join(f"{key}:{value}" for key, value in words.items()))
