"""Chains through containers of millions of entries: each is gone through as little as can be, and names have a limit of time."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from typing import Any

import pytest

from msmemscope.capture import bounds, reference_chains
from msmemscope.capture.reference_chains import chain_text


def chain_of(container: Any, wanted: Any) -> str:
    """The chain to an entry of a global variable."""
    variables = {"kept": container}
    return chain_text([variables, container, wanted], {id(variables): "main"}, {})


@pytest.mark.parametrize("place", [0, 3, 1499, 2998, 2999])
def test_an_entry_is_found_wherever_it_is(place: int) -> None:
    """Among the newest ones, which are looked at first, or not."""
    wanted = object()
    entries: list[Any] = [object() for _ in range(3000)]
    entries[place] = wanted
    assert chain_of(entries, wanted) == f"main.kept[{place}]"
    assert chain_of(tuple(entries), wanted) == f"main.kept[{place}]"
    assert chain_of(dict(enumerate(entries)), wanted) == f"main.kept[{place}]"


def test_the_newest_entries_are_looked_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a dictionary is not copied for each of the blocks that leak into it."""
    wanted = object()
    monkeypatch.setattr(reference_chains, "_items", None)
    assert chain_of({**dict.fromkeys(range(5000)), "last": wanted}, wanted) == "main.kept['last']"


def test_a_list_with_places_is_gone_through_once_for_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many blocks are in it."""
    counted = []

    def filled(values: list[Any]) -> int:
        counted.append(len(values))
        return 2

    monkeypatch.setattr(bounds, "_filled_places", filled)
    entries: list[Any] = [object(), object(), None, None, None]
    variables, known = {"kept": entries}, {}  # type: dict[str, Any], dict[int, int]
    texts = [chain_text([variables, entries, one], {id(variables): "main"}, known) for one in entries[:2]]
    assert texts == ["main.kept[0; 2 of at most 5]", "main.kept[1; 2 of at most 5]"]
    assert counted == [5]


@pytest.mark.parametrize("others", [0, 1000])
def test_a_value_of_a_context_is_named_by_its_variable(others: int) -> None:
    """However deep the tree is that keeps it."""
    wanted = object()
    context = contextvars.Context()
    for number in range(others):
        context.run(contextvars.ContextVar[object](f"other_{number}").set, number)
    context.run(contextvars.ContextVar[object]("current").set, wanted)
    paths = [[context]]
    while paths[0][-1] is not wanted:
        path = paths.pop(0)
        paths.extend(
            [*path, one] for one in gc.get_referents(path[-1]) if one is wanted or "hamt" in type(one).__name__
        )
    variables = {"kept": context}
    assert chain_text([variables, *paths[0]], {id(variables): "main"}, {}) == "Context[current], from main.kept"


def test_a_result_of_a_task_is_named() -> None:
    """It is in no attribute; nor is an error."""
    wanted = object()

    async def answer(error: Exception | None) -> object:
        if error is not None:
            raise error
        return wanted

    async def run(error: Exception | None) -> asyncio.Task[object]:
        task = asyncio.ensure_future(answer(error))
        await asyncio.wait([task])
        return task

    error = ValueError()
    for held, raised, way in ((wanted, None, "result"), (error, error, "exception")):
        task = asyncio.run(run(raised))
        tasks = {task}
        variables = {"tasks": tasks}
        text = chain_text([variables, tasks, task, held], {id(variables): "main"}, {})
        assert text == f"Task.{way}(), from main.tasks{{...}}"
        assert way == "result" or task.exception() is error


def test_an_attribute_of_a_thread_is_named() -> None:
    """By the variable that all threads have."""
    local = threading.local()
    local.buffer = [object()]
    by_thread = next(one for one in gc.get_referents(local) if type(one) is dict)
    own = next(one for one in gc.get_referents(by_thread) if type(one) is dict)
    variables = {"state": local}
    path = [variables, local, by_thread, own, local.buffer, local.buffer[0]]
    assert chain_text(path, {id(variables): "main"}, {}) == "main.state.buffer (of a thread)[0]"
