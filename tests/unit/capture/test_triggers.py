"""When conditions hold, with figures and a clock of the test: what cannot be waited for in a program."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest

from msmemscope.capture import triggers
from msmemscope.capture.triggers import Triggers, with_details
from msmemscope.configuration import CollectionItem, Config

SECOND = 10**9
GIB = 1 << 30


@dataclasses.dataclass
class World:
    """The figures of a process."""

    now_ns: int = 0
    resident_bytes: int = GIB
    used: tuple[int, int] = (0, 0)
    card: list[tuple[str, int, int, int]] = dataclasses.field(default_factory=list)
    failed: int = 0
    captures_graph: bool = False

    def resident(self) -> int:
        """Of the process."""
        return self.resident_bytes

    def host(self) -> tuple[int, int]:
        """Of the control group."""
        return self.used

    def devices(self) -> list[tuple[str, int, int, int]]:
        """Of the devices."""
        return self.card


class Run:
    """Steps of a program under conditions; what was recorded of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, setting: str, steps: int = 3) -> None:
        self.world = World()
        self.facts: list[str] = []
        self.switched: list[bool] = []
        native = SimpleNamespace(
            failed_allocations=lambda: self.world.failed,
            note_fact=lambda _, text: self.facts.append(text),
            devices_can_be_read=lambda: not self.world.captures_graph,
        )
        monkeypatch.setattr(triggers, "_native", native)
        monkeypatch.setattr(triggers, "record_snapshot", lambda *_: None)
        self.conditions = Triggers(setting, steps, self.switched.append, self.world, lambda: self.world.now_ns)

    def steps(self, count: int, each_ns: int = SECOND) -> None:
        """Let steps end."""
        for _ in range(count):
            self.world.now_ns += each_ns
            self.conditions.step_ended(Config())


def test_details_end_and_an_hour_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The condition holds all the time."""
    run = Run(monkeypatch, "rss>2GiB")
    run.steps(5)
    assert not run.switched
    run.world.resident_bytes = 3 * GIB
    run.steps(1)
    assert (run.switched, run.facts) == ([True], ["rss>2GiB in step 6 (3.00 GiB)"])
    run.steps(3)
    assert run.switched == [True, False]
    run.steps(3590)
    assert len(run.switched) == 2
    run.steps(7)
    assert run.switched == [True, False, True]


def test_without_steps_time_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Growth of the first half minute is none; once a condition held, an hour passes; steps that end say more."""
    run = Run(monkeypatch, "growth>1GiB/h|rss>20GiB")
    begun: list[str] = []
    monkeypatch.setattr(run.conditions, "_begin_answer", lambda one, _, figure: begun.append(f"{one.text} ({figure})"))

    def seconds(count: int) -> None:
        for _ in range(count):
            run.world.now_ns += SECOND
            run.conditions.time_has_passed(Config)

    seconds(10)
    run.world.resident_bytes = 8 * GIB
    seconds(60)
    assert not begun
    run.world.resident_bytes = 10 * GIB
    seconds(1)
    assert begun == ["growth>1GiB/h (host memory grew by 2.00 GiB)"]
    run.world.resident_bytes = 30 * GIB
    seconds(3590)
    assert len(begun) == 1
    seconds(20)
    assert len(begun) == 2
    run.steps(1)
    seconds(4000)
    assert len(begun) == 2


def test_growth_within_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gibibyte in two hours is no gibibyte in one. Memory that comes back and goes again is no growth."""
    run = Run(monkeypatch, "growth>1GiB/h")
    for _ in range(4):
        run.world.resident_bytes += GIB // 2
        run.steps(1, 3600 * SECOND)
    run.world.resident_bytes -= GIB // 2
    run.steps(1)
    assert not run.switched
    run.world.resident_bytes += GIB + 1
    run.steps(1)
    assert run.facts == ["growth>1GiB/h in step 6 (host memory grew by 1.00 GiB)"]


def test_growth_of_the_first_steps_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models are loaded, and optimizers make their state."""
    run = Run(monkeypatch, "growth>1GiB/h")
    for size in (2, 10, 20, 20, 20):
        run.world.resident_bytes = size * GIB
        run.steps(1)
    assert not run.switched


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """One by its number; all of a kind; the part of it that anybody uses."""
    card = [("npu:0", 10 * GIB, 20 * GIB, 64 * GIB), ("npu:1", 40 * GIB, 62 * GIB, 64 * GIB)]
    for setting, figure in (
        ("npu:0>30GiB", None),
        ("npu:1>30GiB", "40.0 GiB on npu:1"),
        ("npu>30GiB", "40.0 GiB on npu:1"),
        ("npu>95%", "62.0 GiB of 64.0 GiB of npu:1"),
        ("cuda>1%", None),
    ):
        run = Run(monkeypatch, setting)
        run.world.card = card
        run.steps(1)
        assert run.facts == ([f"{setting} in step 1 ({figure})"] if figure else [])


def test_nothing_is_asked_while_a_graph_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question to the driver could spoil it."""
    run = Run(monkeypatch, "npu>1%")
    run.world.card = [("npu:0", GIB, GIB, 2 * GIB)]
    run.world.captures_graph = True
    run.steps(3)
    assert not run.switched
    run.world.captures_graph = False
    run.steps(1)
    assert run.switched == [True]


def test_part_of_the_control_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than so many percent."""
    run = Run(monkeypatch, "rss>90%")
    run.world.used = (90, 100)
    run.steps(2)
    assert not run.switched
    run.world.used = (91, 100)
    run.steps(1)
    assert run.facts == ["rss>90% in step 3 (91 bytes of 100 bytes)"]


def test_time_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the steps before. The first ones are slow, and do not count."""
    run = Run(monkeypatch, "step_time>2x")
    run.steps(3, 100 * SECOND)
    run.steps(20)
    assert not run.switched
    run.steps(1, 3 * SECOND)
    assert run.facts == ["step_time>2x in step 24 (3000.0 ms, 1000.0 ms in the steps before)"]


def test_a_failed_allocation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each counts once: the program went on."""
    run = Run(monkeypatch, "oom")
    run.steps(2)
    run.world.failed = 1
    run.steps(1)
    assert run.facts == ["oom in step 3 (an allocation failed)"]


def test_a_fault_of_ours_ends_nothing_but_the_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The step of the program goes on; the log says why nothing is looked at."""
    run = Run(monkeypatch, "npu>1%")
    monkeypatch.setattr(run.world, "devices", lambda: 1 // 0)
    run.steps(3)
    assert run.facts == ["ZeroDivisionError: integer division or modulo by zero"]


def test_details(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accesses, operators, and both stacks, also where the settings have none of them."""
    monkeypatch.setenv("ASCEND_HOME_PATH", "/nowhere")
    config = Config(events=frozenset({CollectionItem.ALLOC, CollectionItem.FREE}), python_stack_depth=0)
    detailed = with_details(config)
    assert {CollectionItem.ACCESS, CollectionItem.LAUNCH} <= detailed.events
    assert detailed.python_stack
    assert detailed.native_stack
    assert detailed.python_stack_depth > 0
    assert detailed.native_stack_depth > 0
    assert detailed.devices == config.devices


def test_a_signal_raises_nothing_where_no_thread_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler runs in the middle of the program, also while the interpreter ends."""
    run = Run(monkeypatch, "SIGUSR2")
    warned: list[str] = []

    def refuse(*_: object) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    monkeypatch.setattr(triggers, "_native", SimpleNamespace(warn=warned.append))
    monkeypatch.setattr(triggers, "_thread", SimpleNamespace(start_new_thread=refuse))
    run.conditions._asked(run.conditions._conditions[0], Config)
    assert warned == ["--trigger: SIGUSR2 has no effect: can't start new thread"]
