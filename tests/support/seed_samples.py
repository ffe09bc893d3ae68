"""The code samples of the seed documents: where they are kept, how one is filled in, and how one is run."""

from __future__ import annotations

import csv
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support import tool
from tests.support.ascend import Observation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
            placeholders: What is printed to what takes its place, everywhere; in the order of the mapping.
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
            script: The lines; the first that fails ends it.
            output: Where results are expected; without it, in the default folder.
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
