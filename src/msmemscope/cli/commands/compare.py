"""`msmemscope compare BASE COMPARE`, and the older form `msmemscope --compare --input=BASE,COMPARE`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msmemscope.configuration import OPTION_BY_SPELLING, Config, GivenOption, split_list, with_options
from msmemscope.errors import EXIT_STATUS_FAILURE, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from msmemscope.cli.arguments import LaunchRequest
    from msmemscope.configuration import Level
    from msmemscope.recording import Recording

_STEP = re.compile(r"(.+):step=([0-9]{1,18})")
_INPUTS = 2
_EXAMPLE = "msmemscope --compare --input=BASE,COMPARE --level=op"

_COMPARING = frozenset({"compare", "input"})
"""Options with which a command line compares results instead of running a program."""

_INPUT_FORMS = "two paths: a dump file, a capture folder, or either with :step=N behind it"


class Input(NamedTuple):
    """One side of a comparison."""

    path: Path
    step: int | None


class CompareCommand:
    """Compare the memory of two runs, or of two steps, operator by operator or kernel by kernel.

    A side is a dump file (CSV or DB), a capture folder (msmemscope_*_ascend), or either with `:step=N` behind it. Without
    COMPARE it is the latest run in the output folder, and without BASE the one before that is the base. Of results of
    several processes those that used the same devices are compared. The rows go to
    compare/memory_compare_{timestamp}.csv in the output folder; peaks and the largest differences are shown.
    """

    name = "compare"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the verb."""
        parser.add_argument("base", metavar="BASE", nargs="?", help="what is compared against")
        parser.add_argument("compare", metavar="COMPARE", nargs="?", help="what may be different")
        for spelling in ("--level", "--output"):
            option = OPTION_BY_SPELLING[spelling]
            names = (spelling, *option.other_spellings)
            parser.add_argument(
                *names, metavar=option.metavar, dest=option.name, help=f"{option.summary} Accepted: {option.accepted}"
            )
        parser.add_argument(
            "--fail-on", metavar="CONDITION", action="append", default=[],
            help="exit with status 1 if it holds: peak>5%%, peak>100M, net>1G; may be repeated",
        )  # fmt: skip
        parser.add_argument("--json", action="store_true", help="write the result to stdout as JSON")

    def run(self, arguments: argparse.Namespace) -> int:
        """Compare, write and show."""
        given = [
            GivenOption(OPTION_BY_SPELLING[f"--{name}"], f"--{name}", value)
            for name in ("level", "output")
            if (value := getattr(arguments, name)) is not None
        ]
        config = with_options(Config(), given)
        named = [
            (text, option) for option in ("BASE", "COMPARE") if (text := getattr(arguments, option.lower())) is not None
        ]
        sides = [_input(text, option) for text, option in named]
        sides += _latest(Path(config.output), _INPUTS - len(sides))
        return compare_inputs(sides, config, fail_on=arguments.fail_on, as_json=arguments.json)


def _latest(output: Path, count: int) -> list[Input]:
    """Return the latest runs as the sides that are not named.

    Raises:
        UsageError: There are not so many, or one has several processes.
    """
    if count == 0:
        return []
    from msmemscope.launch import messages
    from msmemscope.launch.latest_runs import latest_runs

    runs = latest_runs(output, count)
    for run, word in zip(runs, ("the run before it", "the latest run")[-count:], strict=True):
        if len(run.captures) > 1:
            message = f"{word} has {len(run.captures)} processes; name one of them"
            raise UsageError(message, hint=f"msmemscope compare BASE COMPARE, for example {run.captures[0]}")
        messages.note(f"{word}: {run}")
    return [Input(run.captures[0], None) for run in runs]


def compare_by_options(request: LaunchRequest) -> int:
    """Run `--compare --input=BASE,COMPARE`.

    Raises:
        UsageError: If one of the two options is missing, or a program was given too.
    """
    values = {one.option.name: one for one in request.given}
    missing = _COMPARING - values.keys()
    if missing:
        message = f"goes together with --{min(missing)}"
        raise UsageError(message, option=f"--{min(values.keys() & _COMPARING)}", hint=_EXAMPLE)
    if request.program:
        message = "compares results, and runs no program"
        raise UsageError(message, option="--compare", value=request.program[0], hint=_EXAMPLE)
    given = [one for one in request.given if one.option.name not in _COMPARING]
    return compare_inputs(inputs_of_option(values["input"].value), with_options(Config(), given))


def inputs_of_option(text: str) -> list[Input]:
    """Read the value of `--input`.

    Raises:
        UsageError: If it does not name two inputs.
    """
    paths = split_list(text)
    if len(paths) != _INPUTS:
        message = f"names {len(paths)} inputs" if paths else "names no input"
        raise UsageError(message, option="--input", value=text, accepted=f"{_INPUT_FORMS}, separated by a comma")
    return [_input(path, "--input") for path in paths]


def compare_inputs(
    sides: Sequence[Input], config: Config, *, fail_on: Sequence[str] = (), as_json: bool = False
) -> int:
    """Compare two inputs, write the rows, and show the largest differences.

    Args:
        sides: The base and what is compared to it.
        config: Its level and output are used.
        fail_on: Conditions, see `analysis.gates`.
        as_json: Whether stdout gets JSON instead of text.

    Returns:
        The exit status: 1 if a condition holds.

    Raises:
        MsmemscopeError: An argument is not accepted, or an input cannot be read; nothing was written.
    """
    from msmemscope.analysis.compare.comparison import compare
    from msmemscope.analysis.compare.gates import parse_gate
    from msmemscope.analysis.compare.process_pairs import paired_processes
    from msmemscope.capture.output_root import prepare_output_root
    from msmemscope.formats.dump.comparison_csv import write_comparison
    from msmemscope.launch import messages
    from msmemscope.reports.comparison_report import comparison_json, render_comparison
    from msmemscope.reports.coverage_report import render_limits, render_missing
    from msmemscope.reports.rank_text import process_name

    gates = [parse_gate(text, option="--fail-on") for text in fail_on]
    levels = _levels(config)
    bases, others = (_loaded(side) for side in sides)
    pairs = paired_processes(bases, others, [side.path for side in sides], [side.step for side in sides])
    for recording in (*bases, *others):
        for problem in recording.problems:
            messages.warning(f"{recording.source}: {problem}")
    failures: list[str] = []
    texts = []
    for base, other in pairs:
        comparison = compare(base, other, levels, base_step=sides[0].step, other_step=sides[1].step)
        coverage = comparison.coverage
        if coverage.is_answered and comparison.rows.height:
            root = prepare_output_root(config.output)
            messages.note(f"comparison written to {write_comparison(comparison, root.path)}")
        if as_json:
            texts.append(comparison_json(comparison))
        else:
            if len(pairs) > 1:
                sys.stdout.write(
                    f"{process_name(base.process_id, base.place)} in base, process {other.process_id} in compare\n"
                )
            if coverage.is_answered:
                render_comparison(comparison, sys.stdout)
            else:
                render_missing(coverage, sys.stdout)
            render_limits(coverage, sys.stdout)
            if len(pairs) > 1:
                sys.stdout.write("\n")
        failures += [line for gate in gates for line in gate.failures(comparison)]
        if gates and not coverage.is_answered:
            failures += [f"--fail-on: {line}" for line in coverage.missing]
    if as_json:
        sys.stdout.write(f"{texts[0]}\n" if len(texts) == 1 else '{"pairs": [\n' + ",\n".join(texts) + "\n]}\n")
    for line in failures:
        messages.failed(line)
    return EXIT_STATUS_FAILURE if failures else 0


def _levels(config: Config) -> frozenset[Level]:
    if not config.level:
        message = "names nothing to compare"
        raise UsageError(message, option="--level", value="", accepted=OPTION_BY_SPELLING["--level"].accepted)
    return config.level


def _input(text: str, option: str) -> Input:
    path = Path(text).expanduser()
    match = _STEP.fullmatch(text)
    if match is not None and not path.exists():
        return Input(Path(match[1]).expanduser(), int(match[2]))
    if not text.strip():
        message = "names no input"
        raise UsageError(message, option=option, value=text, accepted=_INPUT_FORMS)
    return Input(path, None)


def _loaded(side: Input) -> tuple[Recording, ...]:
    from msmemscope.formats.reading import load_all

    return load_all(side.path)
