"""Native code includes in one direction, and the words of a vendor stand where that vendor is observed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

NATIVE = Path(__file__).parents[2] / "native"

MAY_INCLUDE: Final = {
    "core/format": (),
    "core/writer": ("core/format",),
    "core/stacks": ("core/format", "core/writer"),
    "core/observe": ("core/format", "core/writer", "core/stacks"),
    "interpose": ("core",),
    "watch": ("core",),
    "sources": ("core", "interpose", "watch"),
    "offline": (),
    "attach": (),
    "preload": ("core", "interpose", "watch"),
    "bindings": ("core", "interpose", "watch", "sources", "offline"),
}
"""From folders to those whose headers they may include, besides their own."""

VENDOR_WORDS: Final = re.compile(r"\b(?:npu|cann|aclrt?\w*|ascend|cuda\w*|hal[A-Z]\w*|virtual_npu\w*)\b", re.IGNORECASE)
FREE_OF_VENDORS: Final = ("core/writer", "core/stacks", "core/observe", "interpose", "watch")


def folder_of(path: Path) -> str:
    """The entry of MAY_INCLUDE that a file belongs to."""
    name = path.relative_to(NATIVE).as_posix()
    return max((folder for folder in MAY_INCLUDE if name.startswith(f"{folder}/")), key=len, default="")


def sources_of(folder: str) -> list[Path]:
    """All files of a folder."""
    return [path for path in sorted((NATIVE / folder).rglob("*")) if path.suffix in {".h", ".cpp"}]


def without_comments(text: str) -> str:
    """The code alone."""
    return re.sub(r"//[^\n]*", "", text)


@pytest.mark.parametrize("folder", MAY_INCLUDE)
def test_includes_point_downward(folder: str) -> None:
    """A header of a folder that is not named for this one is not included."""
    wrong = []
    files = [path for path in sources_of(folder) if folder_of(path) == folder]
    assert files, f"native/{folder} is empty"
    for path in files:
        for name in re.findall(r'#include "([^"]+)"', path.read_text(encoding="utf-8")):
            target = NATIVE / name
            if not target.exists():
                continue  # beside the file
            allowed = (folder, *MAY_INCLUDE[folder])
            if not any(name.startswith(f"{one}/") for one in allowed):
                wrong.append(f"{path.relative_to(NATIVE)} includes {name}")
    assert wrong == []


def test_every_folder_has_a_place() -> None:
    """A new folder is given its place above."""
    folders = {path.relative_to(NATIVE).as_posix() for path in NATIVE.iterdir() if any(path.rglob("*.cpp"))} - {"tests"}
    assert folders == {folder.partition("/")[0] for folder in MAY_INCLUDE}


@pytest.mark.parametrize("folder", FREE_OF_VENDORS)
def test_vendors_are_known_to_their_sources_alone(folder: str) -> None:
    """The names that a vendor gives to things do not occur in the code that all devices share."""
    found = {}
    for path in sources_of(folder):
        name = path.relative_to(NATIVE).as_posix()
        words = VENDOR_WORDS.findall(without_comments(path.read_text(encoding="utf-8")))
        if words:
            found[name] = sorted(set(words))
    assert found == {}
