"""Follows the first remedy that is named for programs that run out of memory: `python -m tests.oom_zoo.remedies`.

Each program runs under the tool. Then `msmemscope analyze oom` names a remedy, and the program runs again, without the
tool. If the next command sets a variable, the variable is set and nothing else changes. Otherwise the program runs as
its author would have changed it, if the remedy says so. Programs of the zoo get the words of the remedy. Programs after
public reports have the argument `fixed`, and the remedies with that meaning are listed here. Other remedies are not
followed: they would have led nowhere.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msmemscope.analysis.peak.cause_words import Remedy
from tests.oom_zoo.catalogue import FAMILIES, HOST_FAMILIES, REMEDIES, REPORTED_FAMILIES, programs
from tests.oom_zoo.measure import observe, outcomes_of
from tests.reports.catalogue import reports
from tests.support import tool
from tests.support.ascend import virtual_npu_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.oom_zoo.catalogue import Program

_EXPORT: Final = re.compile(r"export (\w+)=(\S+)")
_SETTING: Final = frozenset[Remedy]()
"""The program needs a setting, no change."""
_RELEASE: Final = frozenset({Remedy.RELEASE_KEPT, Remedy.BOUND_CACHE})
FIXED_BY: Final[dict[str, frozenset[Remedy]]] = {
    "allocator/adapters_under_fraction": frozenset({Remedy.RAISE_LIMIT}),
    "allocator/expert_weights_layout": _SETTING,
    "allocator/sampler_workspace": frozenset({Remedy.LOOK_AT_DRIVER}),
    "allocator/varied_lengths": _SETTING,
    "inference/basecaller": _SETTING,
    "inference/video_objects": _RELEASE,
    "reinforcement/expert_routing": _SETTING,
    "reinforcement/micro_batches": _RELEASE,
    # Counts the cache when it measures how large a batch may be: a smaller one.
    "serving/prompt_prefixes": _RELEASE | {Remedy.SMALLER_BATCH},
    "training/adam_instead_of_sgd": frozenset({Remedy.LIGHTER_OPTIMIZER}),
    "training/resume_training": frozenset({Remedy.RELEASE_LOADED}),
    "training/transducer_workspace": _SETTING,
}
"""Programs after public reports, and the remedies that the argument `fixed` follows."""
FIXED_BY_ELSEWHERE: Final[dict[str, tuple[str, frozenset[Remedy]]]] = {
    "trainer_eval": ("768MiB", _RELEASE),
    "oom_retry": ("768MiB", frozenset({Remedy.LEAVE_EXCEPTION})),
}
"""The same of programs in a folder that is given, with the memory of their card."""


@dataclass(frozen=True)
class Advice:
    """The first advice for a program that ran out of memory."""

    cause: str
    remedy: str
    setting: tuple[str, str] | None
    """A variable and its value, if that is the next command."""
    verdict: str


@dataclass(frozen=True)
class Followed:
    """One program, what was said, and what came of it."""

    program: str
    advice: Advice | None
    """None if nothing was said."""
    change: str
    """The change that was made: a setting, or the repaired program. Empty if the remedy is not one of this program."""
    is_finished: bool

    @property
    def is_setting(self) -> bool:
        """Whether only a setting was changed."""
        return self.advice is not None and self.advice.setting is not None

    def __str__(self) -> str:
        """Returns a line of the table, and what was said first where it led nowhere."""
        outcome = "finished" if self.is_finished else "not finished" if self.change else "no remedy"
        if self.advice is None:
            return f"{outcome:12}  {self.program:36}  nothing was said"
        said = f"{self.advice.cause}: {self.advice.remedy}"
        line = f"{outcome:12}  {self.program:36}  {said:66}  {self.change}".rstrip()
        return line if self.is_finished else f"{line}\n{'':14}{self.advice.verdict}"


def advice_of(output: Path) -> Advice | None:
    """Ask `msmemscope analyze oom` about the last failure of one process.

    Args:
        output: Where its results are.
    """
    answered = tool.run([*tool.TOOL, "analyze", "oom", "--json", output], output=output)
    failures: list[Any] = [
        failure
        for process in json.loads(answered.stdout)["processes"]
        for failure in (process["result"] or {}).get("failures", ())
    ]
    causes = [failure["cause"] for failure in failures if failure["cause"] is not None]
    if not causes:
        return None
    cause = causes[-1]
    export = _EXPORT.fullmatch(cause["next_command"])
    setting = (export[1], export[2]) if export is not None else None
    return Advice(cause["cause"], cause["remedy"], setting, cause["verdict"])


def follow_zoo(folder: Path, chosen: Sequence[Program]) -> Iterator[Followed]:
    """Follow what is said of programs of the zoo.

    Args:
        folder: An empty one, for what is written.
        chosen: Of families of one kind of device.
    """
    if not chosen:
        return
    processes = observe(folder, chosen)
    advices = {}
    for program in chosen:
        (directory,) = (folder / "out").glob(f"msmemscope_{processes[program.identity]}_*_ascend*")
        advices[program.identity] = advice_of(directory)
    changes = {}
    for program in chosen:
        advice = advices[program.identity]
        if advice is not None and advice.setting is not None:
            changes[program.identity] = {advice.setting[0]: advice.setting[1]}
        elif advice is not None and advice.remedy == REMEDIES[program.cause].value:
            changes[program.identity] = {"OOM_ZOO_REMEDY": advice.remedy}
    outcomes: dict[str, str] = {}
    for variables in {tuple(change.items()) for change in changes.values()}:
        changed = [program for program in chosen if tuple(changes.get(program.identity, {}).items()) == variables]
        outcomes |= outcomes_of(folder, changed, dict(variables))
    for program in chosen:
        change, is_finished = changes.get(program.identity, {}), outcomes.get(program.identity) == "finished"
        what = "the program, repaired" if "OOM_ZOO_REMEDY" in change else _export_of(change)
        yield Followed(program.identity, advices[program.identity], what, is_finished)


def follow_reports(folder: Path, wanted: Callable[[str], bool], elsewhere: Path | None = None) -> Iterator[Followed]:
    """Follow the remedies for programs after public reports, one after the other.

    Args:
        folder: An empty folder for the files that are written.
        wanted: Says for a name whether the program is to run.
        elsewhere: A folder with the programs of FIXED_BY_ELSEWHERE.
    """
    for report in reports():
        if report.name in FIXED_BY and wanted(report.name):
            output = folder / report.name.replace("/", "_")
            yield _follow(report.name, report.path, report.memory, FIXED_BY[report.name], output)
    for name, (memory, fixed_by) in FIXED_BY_ELSEWHERE.items() if elsewhere is not None else ():
        if wanted(name):
            yield _follow(name, (elsewhere or Path()) / f"{name}.py", memory, fixed_by, folder / name)


def _follow(name: str, path: Path, memory: str, fixed_by: frozenset[Remedy], output: Path) -> Followed:
    variables = {"DEV": "npu", **virtual_npu_environment(with_torch=True), "VNPU_MEMORY": memory}
    output.mkdir()
    observed = [*tool.TOOL, f"--output={output}", "--", sys.executable, path]
    first = tool.run(observed, output=output, variables=variables, folder=output, timeout_s=300)
    assert first.returncode != 0, f"{name} finished\n{first.stdout}\n{first.stderr}"
    advice = advice_of(output)
    if advice is not None and advice.setting is not None:
        change = {advice.setting[0]: advice.setting[1]}
        return Followed(name, advice, _export_of(change), _is_finished(path, [], {**variables, **change}, output))
    if advice is not None and advice.remedy in {remedy.value for remedy in fixed_by}:
        return Followed(name, advice, "the program, repaired", _is_finished(path, ["fixed"], variables, output))
    return Followed(name, advice, "", is_finished=False)


def _is_finished(path: Path, arguments: list[str], variables: Mapping[str, str], folder: Path) -> bool:
    run = tool.run([sys.executable, path, *arguments], output=folder, variables=variables, folder=folder, timeout_s=300)
    return run.returncode == 0


def _export_of(variables: Mapping[str, str]) -> str:
    return "".join(f"export {name}={value}" for name, value in variables.items())


def follow_all(folder: Path, wanted: Callable[[str], bool], elsewhere: Path | None = None) -> Iterator[Followed]:
    """Follow what is said of all programs; arguments as for `follow_reports`."""
    for number, families in enumerate((FAMILIES, REPORTED_FAMILIES, HOST_FAMILIES)):
        place = folder / str(number)
        place.mkdir()
        yield from follow_zoo(place, [program for program in programs(families) if wanted(program.identity)])
    yield from follow_reports(folder, wanted, elsewhere)


def main() -> int:
    """Print what came of each program's first remedy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only programs whose name contains one of them")
    parser.add_argument("--elsewhere", type=Path, help="a folder with trainer_eval.py and others")
    chosen = parser.parse_args()

    def is_wanted(name: str) -> bool:
        return not chosen.names or any(part in name for part in chosen.names)

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for row in follow_all(Path(folder), is_wanted, chosen.elsewhere):
            sys.stdout.write(f"{row}\n")
            sys.stdout.flush()
            rows.append(row)
    settings = [row for row in rows if row.is_setting]
    finished, helped = (sum(row.is_finished for row in some) for some in (rows, settings))
    sys.stdout.write(f"{finished} of {len(rows)} finished; {helped} of {len(settings)} by a setting\n")
    return 0 if finished == len(rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
