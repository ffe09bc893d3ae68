"""The harness: variants of one measurement, each run in fresh processes, in turns, and compared by their medians."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

WORKLOADS = Path(__file__).parent / "workloads"
TOOL = (sys.executable, "-m", "msmemscope", "--device=cpu", "--log-level=error")

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",  # the loops are serial; idle worker threads only add noise
    "PYTHONHASHSEED": "0",
}

LEFT_OUT = frozenset(
    {
        "LD_PRELOAD",
        "PYTHONDONTWRITEBYTECODE",  # modules are compiled once, as where they are installed
    }
)
"""Variables of the caller that must not change what is measured."""


class MeasurementError(Exception):
    """A measured command failed."""


@dataclass(frozen=True)
class Variant:
    """One way of running a workload."""

    name: str
    command: tuple[str, ...]
    """`{scratch}` in a word stands for a folder that is new for each run."""
    after: Callable[[Path], dict[str, float]] | None = None
    """Reads further figures from the scratch folder once the run has ended."""


@dataclass(frozen=True)
class Target:
    """The promise for a row."""

    text: str
    holds: Callable[[dict[str, float]], bool]
    """From the medians of all variants of the measurement."""


@dataclass(frozen=True)
class Measurement:
    """Variants that are compared with each other."""

    name: str
    unit: str
    variants: tuple[Variant, ...]
    reference: str
    """The variant that the others are compared with."""
    targets: dict[str, Target] = field(default_factory=dict)
    """By the name of the variant that it is about."""


@dataclass
class Outcome:
    """The samples of one measurement."""

    measurement: Measurement
    samples: dict[str, list[float]]
    further: dict[str, dict[str, float]]
    """Further figures by variant, medians."""
    failures: dict[str, str]
    """Why a variant has no samples."""

    @property
    def medians(self) -> dict[str, float]:
        """The medians of the variants that ran."""
        return {name: statistics.median(values) for name, values in self.samples.items() if values}

    def as_json(self) -> dict[str, Any]:
        """The outcome for the JSON file."""
        medians = self.medians
        return {
            "name": self.measurement.name,
            "unit": self.measurement.unit,
            "reference": self.measurement.reference,
            "medians": medians,
            "samples": self.samples,
            "further": self.further,
            "failures": self.failures,
            "targets": {
                name: {"text": target.text, "met": _holds(target, medians)}
                for name, target in self.measurement.targets.items()
            },
        }


def tool(*options: str) -> tuple[str, ...]:
    """The beginning of a command line that observes what follows."""
    return (*TOOL, "--output={scratch}", *options, "--")


def python(workload: str, *arguments: str) -> tuple[str, ...]:
    """The command line of a workload."""
    return (sys.executable, str(WORKLOADS / f"{workload}.py"), *arguments)


def measure(measurement: Measurement, repeats: int) -> Outcome:
    """Run all variants in turns, so that what slows the machine for a while slows each of them."""
    names = [variant.name for variant in measurement.variants]
    outcome = Outcome(measurement, {name: [] for name in names}, {}, {})
    further: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(repeats):
        for variant in measurement.variants:
            if variant.name in outcome.failures:
                continue
            try:
                value, figures = _run(variant)
            except MeasurementError as error:
                outcome.failures[variant.name] = str(error)
                continue
            outcome.samples[variant.name].append(value)
            further[variant.name].append(figures)
    for name, runs in further.items():
        if runs:
            outcome.further[name] = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
    return outcome


def _run(variant: Variant) -> tuple[float, dict[str, float]]:
    """Run a variant once; return its value and further figures."""
    with tempfile.TemporaryDirectory(prefix="bench_") as scratch:
        words = [word.replace("{scratch}", scratch) for word in variant.command]
        environment = {key: value for key, value in os.environ.items() if key not in LEFT_OUT} | ENVIRONMENT
        run = subprocess.run(words, cwd=scratch, env=environment, capture_output=True, text=True, check=False)
        lines = [line for line in run.stdout.splitlines() if line.startswith("{")]
        if run.returncode != 0 or len(lines) != 1:
            last = (run.stderr.strip().splitlines() or ["nothing on stderr"])[-1]
            message = f"status {run.returncode}: {last}"
            raise MeasurementError(message)
        figures: dict[str, float] = json.loads(lines[0])
        value = figures.pop("value")
        if variant.after is not None:
            figures.update(variant.after(Path(scratch)))
    return value, figures


def _holds(target: Target, medians: dict[str, float]) -> bool | None:
    """Whether a target is met; None if a variant that it needs did not run."""
    try:
        return target.holds(medians)
    except KeyError:
        return None


def table(outcome: Outcome) -> str:
    """The outcome as lines of text: median, spread, what is added to the reference, target."""
    measurement = outcome.measurement
    medians = outcome.medians
    reference = medians.get(measurement.reference)
    lines = [f"{measurement.name} ({measurement.unit})"]
    width = max(len(variant.name) for variant in measurement.variants)
    for variant in measurement.variants:
        name = variant.name
        if name not in medians:
            lines.append(f"  {name:<{width}}  did not run: {outcome.failures.get(name, 'no samples')}")
            continue
        samples = outcome.samples[name]
        line = f"  {name:<{width}}  {medians[name]:>10.2f}  [{min(samples):.2f} .. {max(samples):.2f}]"
        if reference is not None and name != measurement.reference:
            line += f"  {medians[name] - reference:>+10.2f}  x{medians[name] / reference:.2f}"
        if name in measurement.targets:
            target = measurement.targets[name]
            verdict = {True: "met", False: "MISSED", None: "not known"}[_holds(target, medians)]
            line += f"  {target.text}: {verdict}"
        lines.append(line)
        for key, figure in outcome.further.get(name, {}).items():
            lines.append(f"  {'':<{width}}  {key} {figure:,.1f}")
    return "\n".join(lines)
