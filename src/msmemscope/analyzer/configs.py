"""What each analysis can be told, checked when it is made."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Final, TypeAlias

from msmemscope.analysis.inefficient.inefficient import DEFAULT_IDLE_THRESHOLD, InefficientOptions
from msmemscope.configuration import OPTION_BY_SPELLING, Config, GivenOption, with_options
from msmemscope.errors import ConfigurationError, UsageError
from msmemscope.model.devices import parse_device_name
from msmemscope.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msmemscope.configuration import Level

InputPath: TypeAlias = "str | os.PathLike[str] | Recording"
"""A capture folder, a dump file (CSV or DB), an event log, a snapshot of torch; or what `msmemscope.load` returned."""

ACCEPTED_INPUT: Final = "a capture folder, a dump file (CSV or DB), or what msmemscope.load returned"


@dataclasses.dataclass(frozen=True)
class LeaksConfig:
    """What `LeaksAnalyzer` looks at.

    Raises:
        ConfigurationError: a value is not accepted.
        TypeError: one is of the wrong type.
    """

    input_path: InputPath
    mstx_info: str | None = None
    """Text of the mstx marks A, B and C; None looks for leaks over the steps of the program instead."""
    start_index: int = 0
    """Which of the marks with this text is A, from 0."""

    def __post_init__(self) -> None:
        """Refuse what means nothing."""
        _check_input(self.input_path)
        if self.mstx_info is not None and not isinstance(self.mstx_info, str):
            message = f"mstx_info: not a text: {self.mstx_info!r} (accepted: the text of the marks)"
            raise TypeError(message)
        if self.mstx_info is not None and not self.mstx_info.strip():
            message = "is blank"
            accepted = "the text of the marks"
            raise ConfigurationError(message, option="mstx_info", value=self.mstx_info, accepted=accepted)
        _check_count("start_index", self.start_index, 0)


@dataclasses.dataclass(frozen=True)
class InefficientConfig:
    """What `InefficientAnalyzer` looks for.

    Raises:
        ConfigurationError: a value is not accepted.
        TypeError: one is of the wrong type.
    """

    input_path: InputPath
    mem_size: int = 0
    """Blocks smaller than this, in bytes, are not reported."""
    inefficient_type: str | Sequence[str] | None = None
    """One or several of early_allocation, late_deallocation, temporary_idleness; None for all."""
    idle_threshold: int = DEFAULT_IDLE_THRESHOLD
    """A block is idle if more operators than this lie between two consecutive accesses."""
    write_back: bool = True
    """Whether the MALLOC rows of the dump, or of the dumps of a capture, get the attribute `inefficient_type`."""
    patterns: bool = False
    """Whether the report names other patterns too, see `msmemscope.analysis.inefficient.patterns`."""

    def __post_init__(self) -> None:
        """Refuse what means nothing."""
        _check_input(self.input_path)
        _ = self.options

    @property
    def options(self) -> InefficientOptions:
        """What the analysis takes."""
        return InefficientOptions(self.mem_size, self.inefficient_type, self.idle_threshold)


@dataclasses.dataclass(frozen=True)
class DecomposeConfig:
    """What `DecomposeAnalyzer` works out."""

    input_path: InputPath
    moments: int = 400
    """About how many moments the table over time has; 0 for none."""

    def __post_init__(self) -> None:
        """Refuse what means nothing."""
        _check_input(self.input_path)
        _check_count("moments", self.moments, 0)


@dataclasses.dataclass(frozen=True)
class PeakConfig:
    """What `PeakAnalyzer` explains."""

    input_path: InputPath
    device: str | int | None = None
    """`cpu`, `npu:{id}`, or the number of an NPU; None for all that have memory."""
    at: int | None = None
    """ID of the event that is the moment; None for the last allocation that failed, or else the peak."""

    def __post_init__(self) -> None:
        """Refuse what means nothing."""
        _check_input(self.input_path)
        _ = self.device_number
        if self.at is not None:
            _check_count("at", self.at, 0)

    @property
    def device_number(self) -> int | None:
        """What the analysis takes."""
        if self.device is None:
            return None
        device = parse_device_name(str(self.device))
        if device is None:
            message = "not a device"
            accepted = "cpu, npu:{id}, cuda:{id}, or the number of an NPU"
            raise ConfigurationError(message, option="device", value=str(self.device), accepted=accepted)
        return device


@dataclasses.dataclass(frozen=True)
class OperatorsConfig:
    """What `OperatorsAnalyzer` looks at."""

    input_path: InputPath
    level: str = "op"
    """`op`, `kernel`, or `op,kernel`: operators, launches of kernels, or both."""
    csv: str | os.PathLike[str] | None = None
    """A new file that gets all rows; None for none."""

    def __post_init__(self) -> None:
        """Refuse what means nothing."""
        _check_input(self.input_path)
        if not self.levels:
            message = "names nothing"
            accepted = OPTION_BY_SPELLING["--level"].accepted
            raise ConfigurationError(message, option="level", value=self.level, accepted=accepted)

    @property
    def levels(self) -> frozenset[Level]:
        """What the analysis takes."""
        if not isinstance(self.level, str):
            message = f"level: not a text: {self.level!r} (accepted: {OPTION_BY_SPELLING['--level'].accepted})"
            raise TypeError(message)
        given = [GivenOption(OPTION_BY_SPELLING["--level"], "level", self.level)]
        try:
            return with_options(Config(), given).level
        except UsageError as error:
            raise ConfigurationError(
                error.reason, option=error.option, value=error.value, accepted=error.accepted, hint=error.hint
            ) from error


@dataclasses.dataclass(frozen=True)
class OutOfMemoryConfig:
    """What `OutOfMemoryAnalyzer` describes."""

    input_path: InputPath
    limit: int = 5
    """Operators, source lines and blocks that are listed by name."""

    def __post_init__(self) -> None:
        """Refuse what means nothing."""
        _check_input(self.input_path)
        _check_count("limit", self.limit, 1)


@dataclasses.dataclass(frozen=True)
class GrowthConfig:
    """What `GrowthAnalyzer` takes for growth."""

    input_path: InputPath
    significance: float = 0.001
    """The chance, per call site, that is accepted for steps without a trend to be taken for one."""
    minimum_bytes: int = 1
    """Growth from the first to the last step below which a call site is not looked at."""

    def __post_init__(self) -> None:
        """Refuse what means nothing."""
        _check_input(self.input_path)
        _check_count("minimum_bytes", self.minimum_bytes, 0)
        given: object = self.significance
        if not isinstance(given, (int, float)) or not 0 < given < 1:
            message = "not a chance"
            raise ConfigurationError(
                message, option="significance", value=str(given), accepted="a number between 0 and 1, both excluded"
            )


@dataclasses.dataclass(frozen=True)
class WatchConfig:
    """What `WatchAnalyzer` looks at: an event log, because dumps do not have changes of watched memory."""

    input_path: InputPath

    def __post_init__(self) -> None:
        """Refuse what means nothing."""
        _check_input(self.input_path)


def _check_input(path: object) -> None:
    if isinstance(path, Recording):
        return
    if not isinstance(path, (str, os.PathLike)):
        message = f"input_path: neither a path nor a Recording: {path!r} (accepted: {ACCEPTED_INPUT})"
        raise TypeError(message)
    if not os.fspath(path):
        message = "names nothing"
        raise ConfigurationError(message, option="input_path", value="", accepted=ACCEPTED_INPUT)


def _check_count(option: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        message = "not accepted"
        raise ConfigurationError(message, option=option, value=str(value), accepted=f"a whole number, {least} or more")
