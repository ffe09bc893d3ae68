"""Wrapping functions of somebody else and giving them back."""

from __future__ import annotations

import asyncio
import functools
import gc
import importlib
import inspect
import pickle
import sys
import threading
import weakref
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from msmemscope.capture.framework_hooks import cleanup_framework_hooks, init_framework_hooks
from msmemscope.capture.frameworks import patching
from msmemscope.capture.frameworks.places import Place
from msmemscope.capture.frameworks.targets import HookSet, HookType, functions
from msmemscope.model.labels import LabelLevel
from tests.support.frameworks import framework_process, labels_in_force, listening

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from tests.support.frameworks import FrameworkProcess

LABELS = (("tool", LabelLevel.COMPONENT), ("phase", LabelLevel.PROCESS))
VLLM = ("vllm_ascend", "0.11.0", "worker", "decompose")
RUNNER = "vllm_ascend.worker.model_runner_v1"

SOURCE = '''
import functools, sys

def plain(value, *, scale=2):
    """Scale it."""
    return sees(value * scale)

async def later(value):
    sees("before"); await pause(); sees("after")
    return value

def items(count):
    for index in range(count):
        sent = yield sees(index)
        if sent: sees(sent)
    return "end"

async def async_items(count):
    for index in range(count):
        await pause()
        yield sees(index)

class Base:
    def inherited(self):
        return sees("base")

class Model(Base):
    @staticmethod
    def static(value):
        return sees(value)
    @classmethod
    def of_class(cls):
        return sees(cls.__name__)
    def method(self):
        return sees(self)
    partial = functools.partial(lambda value: sees(value), "partial")
    number = 3
'''


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[FrameworkProcess]:
    """A process that can import the fake vllm_ascend 0.11 and has not."""
    with framework_process("vllm_ascend_0_11", monkeypatch) as process:
        yield process


def new_module(name: str) -> Any:
    """A module that can be given any attribute."""
    return ModuleType(name)


class Target:
    """A module that is imported already, and what its functions saw."""

    def __init__(self, process: FrameworkProcess) -> None:
        self.process = process
        self.module: Any = new_module("observed_framework")
        self.seen: list[tuple[Any, list[str]]] = []

        def sees(value: Any) -> Any:
            self.seen.append((value, labels_in_force()))
            return value

        self.module.sees = sees
        self.module.pause = lambda: asyncio.sleep(0)
        exec(SOURCE, vars(self.module))  # noqa: S102 - a framework, in a few lines

    def hook(self, class_name: str, name: str, **what: Any) -> None:
        """Hook one of its functions."""
        targets = functions("observed_framework", class_name, name, **(what or {"labels": LABELS}))
        hook_sets = [HookSet("observed", "*", "part", HookType.DECOMPOSE, targets)]
        patching.patcher.install(hook_sets, "test", self.process.snapshots.append)


@pytest.fixture
def target(process: FrameworkProcess) -> Iterator[Target]:
    """A framework of a few lines."""
    target = Target(process)
    sys.modules["observed_framework"] = target.module
    yield target
    patching.patcher.release_all()
    del sys.modules["observed_framework"]


IN_FORCE = ["tool", "phase"]


def test_a_function_keeps_name_signature_and_result(target: Target) -> None:
    """And its labels hold while it runs, no longer."""
    original = target.module.plain
    target.hook("", "plain")
    hooked = target.module.plain
    assert hooked is not original
    assert (hooked.__name__, hooked.__doc__, hooked.__module__) == ("plain", "Scale it.", original.__module__)
    assert inspect.signature(hooked) == inspect.signature(original)
    assert hooked(2, scale=3) == 6
    with pytest.raises(TypeError, match="unexpected keyword"):
        hooked(2, factor=3)
    assert target.seen == [(6, IN_FORCE)]
    assert labels_in_force() == []
    patching.patcher.release_all()
    assert target.module.plain is original


def test_methods_of_all_kinds(target: Target) -> None:
    """Static methods and class methods stay what they are, and come back as the very same objects."""
    model = target.module.Model
    names = ("static", "of_class", "method", "partial")
    originals = {name: vars(model)[name] for name in names}
    target.hook("Model", " ".join(names))
    instance = model()
    assert instance.static(1) == model.static(1) == 1
    assert instance.of_class() == model.of_class() == "Model"
    assert instance.method() is instance
    assert model.partial() == instance.partial() == "partial"
    assert all(labels == IN_FORCE for _, labels in target.seen)
    assert len(target.seen) == 7
    patching.patcher.release_all()
    assert {name: vars(model)[name] for name in names} == originals
    assert all(vars(model)[name] is original for name, original in originals.items())


def test_an_inherited_method_is_hooked_for_the_class_only(target: Target) -> None:
    """The base has no labels; what replaces the base's method later is called; nothing stays behind."""
    base, model = target.module.Base, target.module.Model
    target.hook("Model", "inherited")
    assert base().inherited() == model().inherited() == "base"
    assert [labels for _, labels in target.seen] == [[], IN_FORCE]
    base.inherited = lambda _self: target.module.sees("replaced")
    assert model().inherited() == "replaced"
    patching.patcher.release_all()
    assert "inherited" not in vars(model)
    assert model().inherited() == "replaced"


def test_a_coroutine_function_is_labelled_while_it_runs(target: Target) -> None:
    """Also after it waited, while another task of the thread has its own labels."""
    target.hook("", "later")
    assert inspect.iscoroutinefunction(target.module.later)
    others: list[list[str]] = []

    async def other() -> None:
        others.append(labels_in_force())
        await asyncio.sleep(0)
        others.append(labels_in_force())

    async def both() -> list[Any]:
        return list(await asyncio.gather(target.module.later(5), other()))

    assert asyncio.run(both()) == [5, None]
    assert target.seen == [("before", IN_FORCE), ("after", IN_FORCE)]
    assert others == [[], []]


def test_a_generator_is_labelled_while_it_runs(target: Target) -> None:
    """Not while its user works with an item; what is sent reaches it, and what it returns comes out."""
    target.hook("", "items")
    assert inspect.isgeneratorfunction(target.module.items)
    generator = target.module.items(2)
    assert next(generator) == 0
    assert labels_in_force() == []
    assert generator.send("hello") == 1
    with pytest.raises(StopIteration) as end:
        next(generator)
    assert end.value.value == "end"
    assert target.seen == [(0, IN_FORCE), ("hello", IN_FORCE), (1, IN_FORCE)]


def test_an_asynchronous_generator_is_labelled_while_it_runs(target: Target) -> None:
    """As a generator."""
    target.hook("", "async_items")
    outside: list[list[str]] = []

    async def use(items: AsyncIterator[int]) -> None:
        outside.extend([labels_in_force() async for _ in items])

    asyncio.run(use(target.module.async_items(2)))
    assert target.seen == [(0, IN_FORCE), (1, IN_FORCE)]
    assert outside == [[], []]


def test_threads_have_their_own_labels(target: Target) -> None:
    """A thread that is started inside has none."""
    target.hook("", "plain")
    inside: list[list[str]] = []

    def start_thread(value: Any) -> Any:
        thread = threading.Thread(target=lambda: inside.append(labels_in_force()))
        thread.start()
        thread.join()
        return value

    target.module.sees = start_thread
    target.module.plain(1)
    assert inside == [[]]


def test_snapshots_stand_around_a_coroutine_once(process: FrameworkProcess, target: Target) -> None:
    """Start when it begins to run, End when it is done, whatever it waits for."""
    target.hook("", "later", is_snapshot=True)
    asyncio.run(target.module.later(1))
    assert process.snapshots == ["observed_framework@@later@Start", "observed_framework@@later@End"]


def test_who_wants_snapshots_says_how_they_are_taken(target: Target) -> None:
    """Nothing is hooked where nobody would take them."""
    place = Place(target.module, "plain")
    wanted = functions("observed_framework", "", "plain", is_snapshot=True)[0]
    with pytest.raises(ValueError, match=r"observed_framework\.plain wants snapshots, and somebody takes none"):
        place.claim("somebody", wanted, "observed_framework")
    assert place.release("somebody")


@pytest.mark.parametrize("what", ["labels", "snapshots", "labels (weights)"])
def test_what_goes_wrong_with_us_is_one_line(
    process: FrameworkProcess, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The program gets its result, each time; it is said once."""

    def fail(*_: object, **__: object) -> None:
        message = "no room"
        raise RuntimeError(message)

    monkeypatch.setattr("msmemscope.capture.frameworks.places.push_labels", fail)
    monkeypatch.setattr("msmemscope.capture.snapshot.take_snapshot", fail)
    monkeypatch.setattr("msmemscope.capture.frameworks.vllm_labels.label_weights", fail)
    init_framework_hooks(*VLLM[:3], "snapshot" if what == "snapshots" else "decompose")
    runner = importlib.import_module(RUNNER).NPUModelRunner()
    name = "load_model" if "weights" in what else "profile_run"
    with listening(lambda name: name):
        assert [getattr(runner, name)() for _ in range(3)] == [name] * 3
    assert process.printed == [f"{what} of NPUModelRunner.{name} failed: RuntimeError: no room"]


def test_exceptions_pass_through_unchanged(process: FrameworkProcess) -> None:
    """Those that end a program too; snapshots are taken and labels end."""
    init_framework_hooks(*VLLM)
    init_framework_hooks(*VLLM[:3], "snapshot")
    runner = importlib.import_module(RUNNER).NPUModelRunner()
    error = KeyboardInterrupt()

    def interrupt(_name: str) -> None:
        raise error

    with listening(interrupt), pytest.raises(KeyboardInterrupt) as raised:
        runner.profile_run()
    assert raised.value is error
    assert [name.rpartition("@")[2] for name in process.snapshots] == ["Start", "End"]
    assert labels_in_force() == []


def test_calling_twice_hooks_once(process: FrameworkProcess) -> None:
    """Also with another type of hooks on the same function."""
    init_framework_hooks(*VLLM)
    runner = importlib.import_module(RUNNER).NPUModelRunner
    once = runner.profile_run
    init_framework_hooks(*VLLM)
    init_framework_hooks(*VLLM[:3], "snapshot")
    init_framework_hooks(*VLLM[:3], "snapshot")
    assert runner.profile_run is once
    seen: list[list[str]] = []
    with listening(lambda _name: seen.append(labels_in_force())):
        runner().profile_run()
    assert seen == [["vllm", "profile"]]
    assert len(process.snapshots) == 2


def test_hooks_come_with_the_import(process: FrameworkProcess) -> None:
    """Nothing is imported for them, and a name imported by name afterwards is the hooked one."""
    init_framework_hooks(*VLLM)
    assert "vllm_ascend" not in sys.modules
    module = importlib.import_module(RUNNER)
    assert hasattr(module.NPUModelRunner.profile_run, "__wrapped__")
    cleanup_framework_hooks()
    assert not hasattr(module.NPUModelRunner.profile_run, "__wrapped__")


def test_cleanup_before_the_import_leaves_the_import_alone(process: FrameworkProcess) -> None:
    """Nobody waits any more."""
    finders = list(sys.meta_path)
    init_framework_hooks(*VLLM)
    cleanup_framework_hooks()
    assert sys.meta_path == finders
    assert not hasattr(importlib.import_module(RUNNER).NPUModelRunner.profile_run, "__wrapped__")


def test_a_module_that_is_executed_again_is_hooked_again(process: FrameworkProcess) -> None:
    """A reload makes new classes."""
    init_framework_hooks(*VLLM)
    module = importlib.import_module(RUNNER)
    for _ in range(2):
        importlib.reload(module)
        seen: list[list[str]] = []
        with listening(lambda _name, seen=seen: seen.append(labels_in_force())):  # type: ignore[misc]
            module.NPUModelRunner().profile_run()
        assert seen == [["vllm", "profile"]]


def by_convention(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator as it should be."""

    @functools.wraps(function)
    def outer(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return outer


def by_closure(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that says nothing of what it wraps."""

    def outer(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return outer


@pytest.mark.parametrize("decorate", [by_convention, by_closure])
def test_a_wrapper_of_somebody_else_stays(
    process: FrameworkProcess, decorate: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> None:
    """Ours rests below it after cleanup, and is used again without a second one."""
    init_framework_hooks(*VLLM)
    runner = importlib.import_module(RUNNER).NPUModelRunner
    foreign = decorate(runner.profile_run)
    runner.profile_run = foreign
    seen: list[list[str]] = []
    with listening(lambda _name: seen.append(labels_in_force())):
        runner().profile_run()
        cleanup_framework_hooks()
        assert runner.profile_run is foreign
        runner().profile_run()
        init_framework_hooks(*VLLM)
        assert runner.profile_run is foreign
        runner().profile_run()
    assert seen == [["vllm", "profile"], [], ["vllm", "profile"]]


def test_a_replacement_of_somebody_else_is_hooked_when_asked_again(process: FrameworkProcess) -> None:
    """It has taken our wrapper's place; cleanup then gives the replacement back."""
    init_framework_hooks(*VLLM)
    runner = importlib.import_module(RUNNER).NPUModelRunner
    seen: list[list[str]] = []

    def replacement(_self: object) -> None:
        seen.append(labels_in_force())

    runner.profile_run = replacement
    init_framework_hooks(*VLLM)
    runner().profile_run()
    cleanup_framework_hooks()
    assert runner.profile_run is replacement
    assert seen == [["vllm", "profile"]]


def test_what_is_missing_is_noted_once(process: FrameworkProcess) -> None:
    """A class or function that is not there; the rest is hooked. A module that is not there, when it is looked for."""
    importlib.import_module("vllm_ascend.worker")
    module = ModuleType(RUNNER)
    sys.modules[RUNNER] = module
    init_framework_hooks(*VLLM[:3], "snapshot")
    init_framework_hooks(*VLLM[:3], "snapshot")
    noted = process.facts_of("unobserved.framework_hooks")
    assert noted[0] == f"{RUNNER}.NPUModelRunner.load_model: does not exist"
    assert noted[-1] == f"{RUNNER}.NPUModelRunner.capture_model: does not exist (5 in all)"
    assert len(noted) == 5
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("vllm_ascend.worker.worker")
    assert len(process.facts_of("unobserved.framework_hooks")) == 5, "it stands in another module in this version"
    assert process.printed == []


def test_what_is_no_function_is_noted(process: FrameworkProcess, target: Target) -> None:
    """And left as it is."""
    target.hook("Model", "number")
    target.hook("plain", "anything")
    assert process.facts_of("unobserved.framework_hooks") == [
        "observed_framework.Model.number: is of type int, no function",
        "observed_framework.plain.anything: plain is of type function, no class (2 in all)",
    ]
    assert target.module.Model.number == 3


def test_a_module_that_does_not_exist_is_noted_when_looked_for(process: FrameworkProcess) -> None:
    """The program's own error stays."""
    targets = functions("observed_absent", "", "run", labels=LABELS)
    patching.patcher.install([HookSet("observed", "*", "part", HookType.DECOMPOSE, targets)], "test")
    assert process.facts == []
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("observed_absent")
    assert process.facts_of("unobserved.framework_hooks") == ["observed_absent: does not exist"]


def test_nothing_is_kept_alive_after_cleanup(target: Target) -> None:
    """A class that the program drops is gone."""
    target.hook("Model", "method inherited")
    watch = weakref.ref(target.module.Model)
    patching.patcher.release_all()
    del target.module.Model
    gc.collect()
    assert watch() is None


def test_a_place_rests_in_another_process(target: Target) -> None:
    """Programs send classes to other processes; our part of them is sent as something that does nothing."""
    place = Place(target.module, "plain")
    there = pickle.loads(pickle.dumps(place))  # noqa: S301 - our own bytes
    assert (there.labels, there.take_snapshot, there.callbacks) == ((), None, ())
    assert place.release("nobody")
