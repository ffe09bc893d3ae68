"""What every analysis is: a configuration in, a typed result out, its report and its JSON."""

from __future__ import annotations

import abc
import contextlib
import os
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from msmemscope.formats.reading import load
from msmemscope.launch import messages
from msmemscope.recording import Recording
from msmemscope.reports.analysis_json import result_content
from msmemscope.reports.coverage_report import render_limits, render_missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from msmemscope.analysis.coverage import Coverage
    from msmemscope.analyzer.configs import InputPath


class AnalysisResult(Protocol):
    """What every analysis returns."""

    @property
    def coverage(self) -> Coverage:
        """What is answered, and what is not."""

    def to_polars(self) -> pl.DataFrame:
        """Return the main table."""


class _AnyConfig(Protocol):
    @property
    def input_path(self) -> InputPath: ...


ConfigType = TypeVar("ConfigType", bound=_AnyConfig)
ResultType = TypeVar("ResultType", bound=AnalysisResult)


class Analyzer(abc.ABC, Generic[ConfigType, ResultType]):
    """One analysis: a configuration in, a typed result out, and its report."""

    name: ClassVar[str]
    """What `analyze` and the command line call it."""
    config_class: ClassVar[type[Any]]

    def analyze(self, config: ConfigType, *, quiet: bool = False) -> ResultType:
        """Run the analysis on one process.

        Args:
            config: What to look at.
            quiet: True prints nothing.

        Raises:
            InputError: the path is missing or unreadable, holds nothing that can be analysed, or several processes.
            ConfigurationError: a value does not fit the input, such as a mark that it does not have.
            DumpError: a file cannot be written.
        """
        recording = (
            config.input_path if isinstance(config.input_path, Recording) else self._load(config.input_path, quiet)
        )
        self.check(recording, config)
        result = self.examine(recording, config)
        if not quiet:
            tell_problems(recording)
            self.report(result, recording, config, sys.stdout)
        for line in self.write(result, recording, config):
            if not quiet:
                messages.note(line)
        return result

    def check(self, recording: Recording, config: ConfigType) -> None:
        """Refuse what `write` could not do, before anything is worked out."""
        del recording, config

    @abc.abstractmethod
    def examine(self, recording: Recording, config: ConfigType) -> ResultType:
        """Work out the result; nothing is printed or written."""

    def report(self, result: ResultType, recording: Recording, config: ConfigType, out: IO[str]) -> None:
        """Write the report, and what it does not cover; without an answer, why there is none."""
        coverage = result.coverage
        if coverage.is_answered:
            self.render(result, recording, config, out)
        else:
            render_missing(coverage, out)
            self.render_remainder(recording, config, out)
        render_limits(coverage, out)

    @abc.abstractmethod
    def render(self, result: ResultType, recording: Recording, config: ConfigType, out: IO[str]) -> None:
        """Write the answer."""

    def render_remainder(self, recording: Recording, config: ConfigType, out: IO[str]) -> None:
        """Write what can be answered where the question itself has no answer."""
        del recording, config, out

    def write(self, result: ResultType, recording: Recording, config: ConfigType) -> Sequence[str]:
        """Write the files that were asked for, and return what was written, one line each."""
        del result, recording, config
        return ()

    def content(self, result: ResultType, recording: Recording, config: ConfigType) -> dict[str, Any]:
        """Return the result as what `json.dumps` takes."""
        del config
        return result_content(result, recording)

    def finding_count(self, result: ResultType) -> int:
        """Return how much was found that should not be; 0 for analyses that only describe."""
        del result
        return 0

    @staticmethod
    def _load(path: str | os.PathLike[str], quiet: bool) -> Recording:  # noqa: FBT001 - of one line above
        recording = load(path)
        if not quiet:
            tell_owner(Path(path))
        return recording


def tell_problems(recording: Recording) -> None:
    """Say what of an input was skipped."""
    for problem in recording.problems:
        messages.warning(f"{recording.source}: {problem}")


def tell_owner(path: Path) -> None:
    """Say so if an input belongs to somebody else, who may have written anything into it."""
    with contextlib.suppress(OSError):  # it was read a moment ago
        if path.stat().st_uid != os.geteuid():
            messages.note(f"{path} belongs to another user: make sure that you trust it")
