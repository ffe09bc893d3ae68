"""Inputs of fuzzing: files and command lines, and the text in which failures are kept."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CORPUS: Final = Path(__file__).parent / "corpus"
"""Inputs that once failed. They are run again by every test run, and are what new inputs are made from."""

LOAD: Final = "load"
"""In the place of a command: `msmemscope.load_all`."""

_LINE_CHARACTERS: Final = 100


@dataclass(frozen=True)
class FuzzInput:
    """Files, and what is done with them."""

    form: str
    """Name of what made it, see `forms.FORMS`."""
    files: dict[str, bytes]
    """By their paths below the working folder."""
    commands: tuple[tuple[str, ...], ...]
    """Arguments of `msmemscope`, run one after the other in one working folder; `{0}` is the working folder."""

    def write(self, folder: Path) -> None:
        """Writes the files below a folder."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def to_text(self, reason: str) -> str:
        """Returns a text that `from_text` reads.

        Args:
            reason: The failure of the input, in words for people.
        """
        content = {
            "reason": reason,
            "form": self.form,
            "commands": [list(command) for command in self.commands],
            "files": {name: _wrapped(content) for name, content in self.files.items()},
        }
        return json.dumps(content, indent=1, ensure_ascii=True) + "\n"

    @classmethod
    def from_text(cls, text: str) -> FuzzInput:
        """Reads what `to_text` returned."""
        content = json.loads(text)
        files = {name: zlib.decompress(base64.b85decode("".join(lines))) for name, lines in content["files"].items()}
        return cls(content["form"], files, tuple(map(tuple, content["commands"])))


def _wrapped(content: bytes) -> list[str]:
    text = base64.b85encode(zlib.compress(content, 9)).decode("ascii")
    return [text[begin : begin + _LINE_CHARACTERS] for begin in range(0, len(text), _LINE_CHARACTERS)]


def kept_inputs() -> dict[str, FuzzInput]:
    """The corpus, by the names of its files."""
    return {path.stem: FuzzInput.from_text(path.read_text(encoding="ascii")) for path in sorted(CORPUS.glob("*.json"))}
