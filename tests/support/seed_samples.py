"""The code samples of the seed documents: where they are kept, how one is filled in, and how one is run.

By day programs are forked after torch_npu was imported, where nothing that is looked at depends on how a program starts.
"""

from __future__ import annotations

import csv
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.support import tool, warm
from tests.support.ascend import Observation
from tests.support.nightly import NIGHT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.support.warm_process import WarmPython

DOCUMENTS = Path(__file__).parents[1] / "contracts" / "seed_samples"

_SAMPLE = re.compile(r"^## (?P<name>.+)\n(?:\n(?P<note>.+)\n)?\n```(?P<tag>\w+)\n(?P<text>(?s:.*?))^```$", re.MULTILINE)
_COMMAND = """\
#!{python}
import sys
from msmemscope.cli.main import main
sys.exit(main())
"""


@dataclass(frozen=True)
class Sample:
    """One listing of a document."""

    key: str
    """The document's number and the sample's name: `002 collect`."""
    tag: str
    """`python`, `shell`, `cpp`, or `text` for options by themselves."""
    text: str

    def filled(self, placeholders: Mapping[str, str]) -> str:
        """Return the text with placeholders replaced.

        Args:
            placeholders: Printed text to its replacement. Each is replaced everywhere, in the order of the mapping.
        """
        text = self.text
        for printed, filling in placeholders.items():
            assert printed in text, f"{self.key} has no {printed!r}"
            text = text.replace(printed, filling)
        return text


def read_samples() -> dict[str, Sample]:
    """Read all samples, by key, in the order of the documents."""
    return {sample.key: sample for path in sorted(DOCUMENTS.glob("document_*.md")) for sample in _samples_of(path)}


def _samples_of(path: Path) -> Iterator[Sample]:
    document = path.stem.removeprefix("document_")
    content = path.read_text(encoding="utf-8")
    found = list(_SAMPLE.finditer(content))
    assert len(found) == content.count("\n## "), f"{path.name} has a section that is not understood"
    for match in found:
        yield Sample(f"{document} {match['name']}", match["tag"], match["text"])


@dataclass(frozen=True)
class Workplace:
    """A folder that samples run in, with the commands `msmemscope` and `msleaks` as a user has them."""

    folder: Path
    variables: Mapping[str, str]
    """Of the environment: those of the virtual NPU."""

    def write(self, name: str, text: str) -> Path:
        """Write a file of the user."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def shell(
        self,
        script: str,
        *,
        output: Path | None = None,
        variables: Mapping[str, str] | None = None,
        expected_status: int = 0,
    ) -> Observation:
        """Run lines of a shell in the folder.

        Args:
            script: The lines. The first one that fails ends the script.
            output: Where results are expected. Without it, they are expected in the default folder.
            variables: Changes of the environment.
            expected_status: The exit status that it must have.
        """
        commands = self.folder / "commands"
        if not commands.exists():
            commands.mkdir()
            for name in ("msmemscope", "msleaks"):
                path = commands / name
                path.write_text(_COMMAND.format(python=sys.executable), encoding="utf-8")
                path.chmod(0o755)
        search = os.pathsep.join([str(commands), str(Path(sys.executable).parent), os.environ["PATH"]])
        run = tool.run(
            ["bash", "-e", "-c", 'cd "$0"\n' + script, self.folder],
            output=output or self.folder / "memscopeDumpResults",
            variables={**self.variables, "PATH": search, **(variables or {})},
        )
        assert run.returncode == expected_status, f"{run.stdout}\n{run.stderr}"
        return Observation(run)

    def traced_calls(self, name: str) -> list[dict[str, str]]:
        """The rows of all Python traces in the default folder whose function has this name or ends in it."""
        found = []
        for path in sorted(self.folder.glob("memscopeDumpResults/msmemscope_*/device_*/dump/python_trace_*.csv")):
            with path.open(encoding="utf-8", newline="") as file:
                rows = list(csv.DictReader(file))
            found += [
                {**row, "file": path.name} for row in rows if row["FuncInfo"].strip('"').endswith((name, f" {name}"))
            ]
        return found


SAMPLES: Final = read_samples()

WITH_TORCH_NPU: Final = ("torch", "torch_npu")
KEPT_BYTES: Final = 1 << 20
USER_CODE: Final = f"""\
import atexit
import time

import torch
import torch_npu

atexit.register(time.sleep, 0.3)  # autograd's thread aborts a process that ends right after a backward pass
kept = []

def train():
    weight = torch.ones(64, 64, device="npu", requires_grad=True)
    (weight @ torch.ones(64, device="npu")).sum().backward()
    kept.append(torch.empty({KEPT_BYTES - 512}, dtype=torch.uint8, device="npu"))

"""
"""The code before a sample. Each call of train() keeps KEPT_BYTES, as the caching allocator rounds them."""


def run_python(
    workplace: Workplace, text: str, command: str = "", output: Path | None = None, **options: Any
) -> Observation:
    """Run a program, behind a command line of the tool if one is given."""
    workplace.write("user_program.py", text)
    return workplace.shell(f"{command} python user_program.py", output=output, **options)


def run_forked(workplace: Workplace, text: str, warm_python: WarmPython, output: Path | None = None) -> Observation:
    """Run a program without a command of the tool; by day it is forked after torch_npu was imported."""
    if NIGHT:
        return run_python(workplace, text, output=output)
    program = workplace.write("user_program.py", text)
    output = output or workplace.folder / "memscopeDumpResults"
    run = tool.warm_run(warm_python, [program], None, output=output, folder=workplace.folder)
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
    return Observation(run)


def words_of(workplace: Workplace, script: str) -> list[str]:
    """The words after the tool's command in lines of a shell, without the program, which they start with python."""
    printed = 'msmemscope() { printf \'%s\\0\' "$@"; }\nmsleaks() { msmemscope "$@"; }\n'
    words = workplace.shell(printed + script).run.stdout.split("\0")
    place = words.index("python")
    return words[:place] + words[place + 2 : -1]


def run_forked_under_tool(
    workplace: Workplace, text: str, *options: str, script: str = "", output: Path | None = None
) -> Observation:
    """Run a program behind `msmemscope OPTIONS`; by day it is forked from one under the tool that has imported torch_npu.

    `script` has the lines of a shell that do it as printed; by day a shell makes options of them.
    """
    if NIGHT:
        command = script or f"msmemscope {' '.join(options)} python user_program.py"
        workplace.write("user_program.py", text)
        return workplace.shell(command, output=output)
    program = workplace.write("user_program.py", text)
    run = warm.run_with_results(
        [program],
        words_of(workplace, script) if script else options,
        output=output or workplace.folder / "memscopeDumpResults",
        variables=workplace.variables,
        modules=WITH_TORCH_NPU,
        changes={},
        timeout_s=tool.TIMEOUT_S,
    )
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
    return Observation(run)


def new_blocks(observation: Observation, device: int = 0) -> list[dict[str, Any]]:
    """The allocations of torch_npu's pool that happened while events were collected."""
    rows = observation.of(device, event="MALLOC", event_type="PTA")
    return [row for row in rows if "shadow" not in row["attributes"]]


def names_of(rows: list[dict[str, Any]]) -> list[str]:
    """Column Name, without the quotation marks of marks."""
    return [row["Name"].strip('"') for row in rows]
