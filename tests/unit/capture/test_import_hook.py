"""Waiting for modules that the program imports."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
import threading
from importlib.machinery import PathFinder, SourceFileLoader
from typing import TYPE_CHECKING, Any

import pytest

from msmemscope.capture import import_hook
from msmemscope.capture.import_hook import ImportLock, when_imported, whenever_imported

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.machinery import ModuleSpec
    from pathlib import Path


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package that is not imported yet: `waited_for` with a submodule `part` and one that fails."""
    folder = tmp_path / "waited_for"
    folder.mkdir()
    (folder / "__init__.py").write_text("", encoding="utf-8")
    (folder / "part.py").write_text("value = 1\n", encoding="utf-8")
    (folder / "broken.py").write_text("raise RuntimeError('not today')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    finders = list(sys.meta_path)
    yield folder
    sys.meta_path[:] = finders
    for name in [name for name in sys.modules if name.partition(".")[0] == "waited_for"]:
        del sys.modules[name]


def test_a_submodule_is_acted_on_once_and_after_it_was_executed() -> None:
    """The module is complete when the action runs, and a reload is not the first import."""
    values: list[int] = []
    when_imported("waited_for.part", lambda: values.append(sys.modules["waited_for.part"].value))
    module = importlib.import_module("waited_for.part")
    importlib.reload(module)
    assert values == [1]


def test_several_may_wait_for_one_module() -> None:
    """Each is served, in the order in which they came."""
    order: list[str] = []
    when_imported("waited_for", lambda: order.append("first"))
    when_imported("waited_for", lambda: order.append("second"))
    importlib.import_module("waited_for")
    assert order == ["first", "second"]


def test_a_module_that_fails_is_waited_for_on(package: Path) -> None:
    """Its error reaches the program, and a later import that works is acted on."""
    acted: list[str] = []
    when_imported("waited_for.broken", lambda: acted.append("broken"))
    with pytest.raises(RuntimeError, match="not today"):
        importlib.import_module("waited_for.broken")
    assert not acted
    (package / "broken.py").write_text("", encoding="utf-8")
    importlib.invalidate_caches()
    importlib.import_module("waited_for.broken")
    assert acted == ["broken"]


def test_the_module_has_its_own_loader() -> None:
    """Code that asks a module for its loader, for sources or resources, finds the real one."""
    when_imported("waited_for.part", lambda: None)
    module = importlib.import_module("waited_for.part")
    assert type(module.__loader__) is SourceFileLoader
    assert module.__spec__ is not None
    assert module.__spec__.loader is module.__loader__


def test_every_execution_counts_until_the_watch_ends() -> None:
    """Reloads, and imports after the module was dropped; then nothing is left in the way of imports."""
    before = list(sys.meta_path)
    acted: list[int] = []
    end = whenever_imported("waited_for.part", lambda: acted.append(len(acted)))
    importlib.reload(importlib.import_module("waited_for.part"))
    del sys.modules["waited_for.part"]
    importlib.import_module("waited_for.part")
    assert acted == [0, 1, 2]
    end()
    importlib.reload(sys.modules["waited_for.part"])
    assert acted == [0, 1, 2]
    assert sys.meta_path == before


def test_a_module_that_does_not_exist_is_told() -> None:
    """Only when the program looks for it."""
    missing: list[str] = []
    end = whenever_imported("waited_for.absent", lambda: None, missing=lambda: missing.append("absent"))
    importlib.import_module("waited_for.part")
    assert not missing
    with pytest.raises(ModuleNotFoundError, match=r"waited_for\.absent"):
        importlib.import_module("waited_for.absent")
    assert missing == ["absent"]
    end()


def test_asking_whether_a_module_exists_is_not_importing_it() -> None:
    """`find_spec` does not act."""
    acted: list[str] = []
    end = whenever_imported("waited_for.part", lambda: acted.append("part"))
    assert importlib.util.find_spec("waited_for.part") is not None
    assert not acted
    end()


class _AsksEveryFinder:
    """As import hooks of others do: it finds a module by asking all finders but itself."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        for finder in sys.meta_path:
            if finder is not self:
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    return spec
        return None


@pytest.mark.parametrize("place", [0, 1], ids=["before us", "behind us"])
def test_other_hooks_that_ask_all_finders_do_no_harm(place: int) -> None:
    """Two hooks that ask each other come to an end, and the action runs once."""
    acted: list[str] = []
    when_imported("waited_for.part", lambda: acted.append("part"))
    sys.meta_path.insert(place, _AsksEveryFinder())
    importlib.import_module("waited_for.part")
    assert acted == ["part"]


class _Counts:
    """A finder that finds nothing."""

    def __init__(self) -> None:
        self.asked = 0

    def find_spec(self, name: str, *_: Any) -> None:
        self.asked += name == "waited_for"


def test_finders_before_us_are_not_asked_again() -> None:
    """The import system has asked them already."""
    end = whenever_imported("waited_for", lambda: None)
    sys.meta_path.insert(0, counts := _Counts())
    importlib.import_module("waited_for")
    assert counts.asked == 1
    end()


class _OlderLoader:
    """A loader without `exec_module`, as Python up to 3.11 accepts."""

    def load_module(self, name: str) -> object:
        raise NotImplementedError(name)


def test_a_loader_that_cannot_be_wrapped_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module is found as it would be without us."""
    spec = importlib.util.spec_from_loader("waited_for.part", _OlderLoader(), origin="elsewhere")  # type: ignore[arg-type]
    monkeypatch.setattr(PathFinder, "find_spec", lambda *_: spec)
    end = whenever_imported("waited_for.part", lambda: None)
    found = import_hook._finder.find_spec("waited_for.part", None)
    assert found is spec
    assert isinstance(getattr(found, "loader", None), _OlderLoader)
    end()


def test_what_is_found_has_a_loader_like_any_other(package: Path) -> None:
    """Who only looks for the module gets a loader that passes for one, and that knows what the real one knows."""
    end = whenever_imported("waited_for.part", lambda: None)
    spec = importlib.util.find_spec("waited_for.part")
    end()
    assert spec is not None
    assert isinstance(spec.loader, importlib.abc.Loader)
    source: Any = spec.loader
    assert source.get_source("waited_for.part") == (package / "part.py").read_text(encoding="utf-8")


def test_locks_of_modules_that_wait_for_each_other() -> None:
    """Python sees that two threads would wait for ever: one of them goes on without the lock."""
    both_have_one = threading.Barrier(2)
    finished = []

    def take(first: str, second: str) -> None:
        with ImportLock(first):
            both_have_one.wait()
            with ImportLock(second):
                finished.append(first)

    threads = [
        threading.Thread(target=take, args=names, daemon=True) for names in (("one_x", "two_x"), ("two_x", "one_x"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert sorted(finished) == ["one_x", "two_x"]
