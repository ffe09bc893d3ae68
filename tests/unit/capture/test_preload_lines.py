"""The environment that preloads msmemscope into a shell's programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from msmemscope.errors import MsmemscopeError
from msmemscope.launch.preload_lines import ATB_LIBRARIES, HOOK_LIBRARIES, preload_variables, without_ours

ALL = (*HOOK_LIBRARIES, *ATB_LIBRARIES.values())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with all libraries."""
    place = tmp_path / "lib64"
    place.mkdir()
    for name in ALL:
        (place / name).touch()
    return place


def test_the_documented_names_are_preloaded(folder: Path) -> None:
    """All five, in the folder that is searched as well."""
    found = preload_variables(folder, {})
    assert found["LD_PRELOAD"].split(":") == [str(folder / name) for name in ALL]
    assert found["LD_LIBRARY_PATH"] == str(folder)


@pytest.mark.parametrize(
    ("home", "expected"),
    [
        ("", tuple(ATB_LIBRARIES.values())),
        ("/opt/nnal/atb/latest/atb/cxx_abi_0", ("libatb_abi_0_hook.so",)),
        ("/opt/nnal/atb/latest/atb/cxx_abi_1/", ("libatb_abi_1_hook.so",)),
        ("/somewhere/else", tuple(ATB_LIBRARIES.values())),
    ],
)
def test_atb_has_one_library_per_abi(folder: Path, home: str, expected: tuple[str, ...]) -> None:
    """The one of the ATB that is set up, or both where that does not say."""
    entries = preload_variables(folder, {"ATB_HOME_PATH": home})["LD_PRELOAD"].split(":")
    assert tuple(Path(entry).name for entry in entries) == (*HOOK_LIBRARIES, *expected)


@pytest.mark.parametrize(
    ("preload", "search"),
    [("", ""), ("/a/libx.so", "/cann/lib64"), ("/a/libx.so:/b/liby.so", "/cann/lib64::/usr/lib:")],
)
def test_setting_twice_and_taking_back(folder: Path, preload: str, search: str) -> None:
    """Earlier entries stay, and entries do not repeat. Taking ours back leaves the earlier ones."""
    before = {"LD_PRELOAD": preload, "LD_LIBRARY_PATH": search, "ASAN_OPTIONS": "detect_leaks=0" if preload else ""}
    once = preload_variables(folder, before)
    assert preload_variables(folder, once) == once
    assert once["LD_PRELOAD"].endswith(preload)
    assert without_ours(folder, once) == before
    assert without_ours(folder, before) == before


def test_entries_separated_by_blanks(folder: Path) -> None:
    """The dynamic linker takes them so, too."""
    before = {"LD_PRELOAD": f"/a/libx.so {folder}/{ALL[0]}  /b/liby.so"}
    assert without_ours(folder, before)["LD_PRELOAD"] == "/a/libx.so:/b/liby.so"


def test_what_cannot_be_preloaded_is_refused(folder: Path, tmp_path: Path) -> None:
    """A message instead of lines that the dynamic linker complains about in every program."""
    (folder / ALL[1]).unlink()
    with pytest.raises(MsmemscopeError, match=f"lacks {ALL[1]}"):
        preload_variables(folder, {})
    (folder / ALL[1]).touch()
    blank = tmp_path / "a b"
    folder.rename(blank)
    with pytest.raises(MsmemscopeError, match="cannot name a path with blanks"):
        preload_variables(blank, {})
