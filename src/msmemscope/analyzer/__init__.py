"""Analyses of what was recorded, for Python callers: `check_leaks`, `check_inefficient`, `analyze`.

Every analysis takes any input (capture folder, event log, CSV or DB dump of any age), any device and any pool. It prints
its report to stdout unless it is told to be quiet, and returns a frozen dataclass whose tables are Polars frames;
`to_polars()` returns the main one. What is wrong with an input, but does not stop the analysis, goes to stderr.
"""

from __future__ import annotations

import dataclasses
import difflib
from typing import TYPE_CHECKING, Any

from msmemscope.analysis.inefficient.inefficient import DEFAULT_IDLE_THRESHOLD
from msmemscope.analysis.leaks.between_marks import MarkLeaks
from msmemscope.analyzer.analyzers import (
    ANALYZERS,
    DecomposeAnalyzer,
    GrowthAnalyzer,
    InefficientAnalyzer,
    LeaksAnalyzer,
    OperatorsAnalyzer,
    OutOfMemoryAnalyzer,
    PeakAnalyzer,
    WatchAnalyzer,
)
from msmemscope.analyzer.base import AnalysisResult, Analyzer
from msmemscope.analyzer.configs import (
    DecomposeConfig,
    GrowthConfig,
    InefficientConfig,
    LeaksConfig,
    OperatorsConfig,
    OutOfMemoryConfig,
    PeakConfig,
    WatchConfig,
)
from msmemscope.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msmemscope.analysis.inefficient.inefficient import InefficientResult
    from msmemscope.analyzer.configs import InputPath

__all__ = [
    "AnalysisResult",
    "Analyzer",
    "DecomposeAnalyzer",
    "DecomposeConfig",
    "GrowthAnalyzer",
    "GrowthConfig",
    "InefficientAnalyzer",
    "InefficientConfig",
    "LeaksAnalyzer",
    "LeaksConfig",
    "OperatorsAnalyzer",
    "OperatorsConfig",
    "OutOfMemoryAnalyzer",
    "OutOfMemoryConfig",
    "PeakAnalyzer",
    "PeakConfig",
    "WatchAnalyzer",
    "WatchConfig",
    "analyze",
    "check_inefficient",
    "check_leaks",
    "get_analyzer_config",
    "list_analyzers",
]


def list_analyzers() -> list[str]:
    """Return the names that `analyze` takes."""
    return list(ANALYZERS)


def get_analyzer_config(type: str) -> dict[str, Any]:  # noqa: A002 - the published name of the argument
    """Return what an analysis can be told.

    Returns:
        `config_class`, the dataclass, and `parameters`, the names of its fields.

    Raises:
        ConfigurationError: there is no such analysis.
    """
    config_class = _analyzer(type).config_class
    return {"config_class": config_class, "parameters": [field.name for field in dataclasses.fields(config_class)]}


def analyze(type: str, *, quiet: bool = False, **parameters: Any) -> AnalysisResult:  # noqa: A002 - the published name
    """Run an analysis by its name.

    Args:
        type: One of `list_analyzers()`.
        quiet: True prints nothing.
        parameters: Fields of its configuration, see `get_analyzer_config`; `input_path` at least.

    Raises:
        ConfigurationError: there is no such analysis, or a value is not accepted.
        TypeError: a parameter is missing, unknown, or of the wrong type.
        InputError: the input cannot be read.
    """
    analyzer = _analyzer(type)
    known = [field.name for field in dataclasses.fields(analyzer.config_class)]
    unknown = next((name for name in parameters if name not in known), None)
    if unknown is not None or "input_path" not in parameters:
        what = f"takes no parameter {unknown!r}" if unknown is not None else "needs the parameter 'input_path'"
        message = f"the analysis {type!r} {what} (accepted: {', '.join(known)})"
        raise TypeError(message)
    result: AnalysisResult = analyzer().analyze(analyzer.config_class(**parameters), quiet=quiet)
    return result


def check_leaks(input_path: InputPath, mstx_info: str, start_index: int = 0, *, quiet: bool = False) -> MarkLeaks:
    """Find what was allocated between the marks A and B, and not freed before C, and print it.

    Args:
        input_path: A dump (CSV or DB) or a capture folder.
        mstx_info: Text of the marks.
        start_index: Which of the marks with this text is A, from 0; the next two are B and C.
        quiet: True prints nothing.

    Returns:
        The leaked blocks of every pool and device.

    Raises:
        ConfigurationError: a value is not accepted, or there are no three such marks; also a ValueError.
        TypeError: a value is of the wrong type.
        InputError: the input cannot be read.
    """
    if not isinstance(mstx_info, str):
        message = f"mstx_info: not a text: {mstx_info!r} (accepted: the text of the marks)"
        raise TypeError(message)
    result = LeaksAnalyzer().analyze(LeaksConfig(input_path, mstx_info, start_index), quiet=quiet)
    assert isinstance(result, MarkLeaks)  # noqa: S101 - a text of marks was given
    return result


def check_inefficient(
    input_path: InputPath,
    mem_size: int = 0,
    inefficient_type: str | Sequence[str] | None = None,
    idle_threshold: int = DEFAULT_IDLE_THRESHOLD,
    *,
    quiet: bool = False,
) -> InefficientResult:
    """Find memory that is held inefficiently, print it, and write the attribute `inefficient_type` into the dump.

    The file is replaced as a whole, and nothing else in it changes. Of a capture folder all its dumps are written.

    Args:
        input_path: A dump (CSV or DB) or a capture folder.
        mem_size: Blocks smaller than this, in bytes, are not reported.
        inefficient_type: One or several of early_allocation, late_deallocation, temporary_idleness; None for all.
        idle_threshold: A block is idle if more operators than this lie between two consecutive accesses.
        quiet: True prints nothing.

    Raises:
        ConfigurationError: a value is not accepted; also a ValueError.
        TypeError: a value is of the wrong type.
        InputError: the input cannot be read.
        DumpError: the dump cannot be replaced; it is as it was.
    """
    config = InefficientConfig(input_path, mem_size, inefficient_type, idle_threshold)
    return InefficientAnalyzer().analyze(config, quiet=quiet)


def _analyzer(name: object) -> type[Analyzer[Any, Any]]:
    found = ANALYZERS.get(name) if isinstance(name, str) else None
    if found is None:
        close = difflib.get_close_matches(str(name), ANALYZERS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else None
        message = "no such analysis"
        raise ConfigurationError(message, option="type", value=str(name), accepted=", ".join(ANALYZERS), hint=hint)
    return found
