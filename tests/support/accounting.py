"""Random programs that allocate, free, start, stop, step and label; and a plain model of what must be recorded of them.

A target program (`target_programs/accounting_server.py`) does what it is told and answers with torch's own figure of
allocated memory. The model knows the rules, and nothing of how they are implemented.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import polars as pl
from hypothesis import strategies as st

from msmemscope.formats.event_log import Capture
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import MEMORY_KINDS, EventKind
from msmemscope.model.labels import LabelLevel, decode_labels
from msmemscope.model.pools import Pool
from tests.support.recordings import assert_sound, bytes_alive, events_of
from tests.support.targets import SOURCES, environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Action = tuple[str, int, int]
"""The action, and two numbers that choose among the things that exist at that moment."""

CONTEXTS = ("main", "thread-0", "thread-1", "task-0", "task-1")
LABELS = ("a", "a", "b", "b", "c", "label\twith a tab, and a colon: é")
SIZES = (0, 1, 511, 512, 513, 4096, 100_000, 1_048_576, 3_000_000)
USER_LEVELS = (LabelLevel.USER_1, LabelLevel.USER_2, LabelLevel.USER_3)
DEEPEST = 5
STORM = -1
"""The number under which the model keeps all that a storm left behind."""

_KINDS_BY_WEIGHT = {
    "allocate": 14,
    "free": 8,
    "view": 2,
    "resize": 2,
    "compute": 2,
    "start": 4,
    "stop": 4,
    "step": 3,
    "configure": 4,
    "label": 9,
    "collect": 2,
    "leave": 6,
    "raise": 2,
    "enter label": 2,
    "exit label": 2,
    "label tensor": 3,
    "hand round": 1,
    "storm": 1,
}

_numbers = st.integers(0, 1 << 16)
_kinds = st.sampled_from(["nothing", *(kind for kind, weight in _KINDS_BY_WEIGHT.items() for _ in range(weight))])
programs = st.lists(st.tuples(_kinds, _numbers, _numbers), min_size=30, max_size=80)
"""Whole programs."""


class Targets:
    """Keeps a target running from program to program, and starts another one after a failure.

    Args:
        device: `cpu` or `npu`.
        folder: Where results come to lie.
        variables: Changes of the environment.
    """

    def __init__(self, device: str, folder: Path, variables: Mapping[str, str]) -> None:
        """Start nothing yet."""
        self._device = device
        self._folder = folder
        self._variables = variables
        self._target: Target | None = None

    def check(self, program: Sequence[Action]) -> None:
        """Let the target do it, and compare what was recorded with the model."""
        if self._target is None:
            self._target = Target(self._device, self._folder, self._variables)
            self._target.measure_unrelated_bytes()
        try:
            model = Model(self._target)
            model.begin()
            model.run(program)
            model.check()
        except BaseException:
            self._target.kill()
            self._target = None
            raise

    def end(self) -> None:
        """Let the target end; it must do so in good order, and must have lost nothing."""
        if self._target is not None:
            directory = self._target.directory
            assert self._target.end() == 0
            header = Capture(directory).header
            assert header.dropped_failure == header.dropped_reentrant == header.untracked_blocks == 0
            assert "Traceback" not in self._target.errors.read_text(encoding="utf-8")
            assert list(Path(directory).parent.glob("device_*/dump/memscope_dump_*.csv"))


class Target:
    """The running target program.

    Args:
        device: `cpu` or `npu`.
        folder: Where its results come to lie.
        variables: Changes of the environment.
    """

    def __init__(self, device: str, folder: Path, variables: Mapping[str, str]) -> None:
        """Start it."""
        self.device = device
        self.ended_steps = 0
        self.errors = folder / "stderr.txt"
        with self.errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, SOURCES / "accounting_server.py", device],
                cwd=folder,
                env=environment(**variables),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.directory = ""
        self.unrelated_bytes = 0

    def ask(self, **command: Any) -> dict[str, Any]:
        """Tell it a line and return its answer."""
        self._pipe(self._process.stdin).write(json.dumps(command) + "\n")
        self._pipe(self._process.stdin).flush()
        line = self._pipe(self._process.stdout).readline()
        assert line, f"the target has ended: {self.errors.read_text(encoding='utf-8')}"
        answer: dict[str, Any] = json.loads(line)
        assert "error" not in answer, f"{command}: {answer['error']}"
        self.directory = answer["directory"]
        return answer

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe

    def measure_unrelated_bytes(self) -> None:
        """Let the log show everything, and see how much of it is no tensor of the program: what torch itself keeps."""
        model = Model(self)
        model.begin()
        self.unrelated_bytes = model.recorded_bytes() - model.allocated

    def end(self) -> int:
        """Let it end in an orderly way and return its exit status."""
        self._pipe(self._process.stdin).close()
        status = self._process.wait(timeout=120)
        self._pipe(self._process.stdout).close()
        return status

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.communicate()


@dataclass
class Block:
    """The knowledge of the model about one block of memory."""

    address: int
    size: int
    """Bytes that torch's figure rose by."""
    labels: dict[LabelLevel, str]
    first_sequence: int
    """The next number before it was allocated."""
    is_recorded: bool = False
    users: int = 1
    """Tensors that lie in it."""
    last_sequence: int = 1 << 62
    """The next number after it was freed."""
    is_checked: bool = True
    """False for what stands for several blocks."""


@dataclass
class Model:
    """The records that a program must leave, by the rules.

    Memory events are recorded if collection is on, the step is one of those chosen, and allocations are among the
    events. When that begins, blocks that are alive are recorded as existing. A recorded block is followed to its end.
    """

    target: Target
    is_tracing: bool = True
    events: str | list[str] = "alloc,free"
    steps: tuple[int, ...] = ()
    tensors: dict[int, Block] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    labels: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in CONTEXTS})
    entered: dict[str, list[str | bool]] = field(default_factory=lambda: {name: [] for name in CONTEXTS})
    """Blocks of code that a context is within: the label, or whether a collect() began the collection."""
    allocated: int = 0
    sequence: int = 0
    checkpoints: list[tuple[int, int, str]] = field(default_factory=list)
    """Next number, bytes that must be alive in the log there, and what had just been done."""
    next_id: int = 0
    done: str = "nothing"
    """The last action of the target, for messages."""

    def begin(self) -> None:
        """Bring the target into a known state: collecting, with nothing in its hands."""
        self._control("main", "start")
        self._configure("main", 0)

    def run(self, program: Sequence[Action]) -> None:
        """Do it, and leave nothing behind."""
        for kind, first, second in program:
            self._act(kind, first, second)
        for context in CONTEXTS:
            while self.entered[context]:
                self._leave(context)
            for label in list(self.labels[context]):
                self._exit_label(context, label)
        # All that is still alive has its record, so that the labels of everything can be compared.
        self.begin()
        self._free_storm()
        while self.tensors:
            self._free("main", next(iter(self.tensors)))

    # --- actions

    def _act(self, kind: str, first: int, second: int) -> None:
        # Every second action is one of the main thread, so that enough happens within one context.
        context = CONTEXTS[first % len(CONTEXTS)] if first % 2 else "main"
        if kind == "allocate":
            self._allocate(context, SIZES[second % len(SIZES)])
        elif kind in {"start", "stop", "step"}:
            self._control(context, kind)
        elif kind == "configure":
            self._configure(context, second)
        elif kind == "label":
            self._enter_label(context, LABELS[second // 2 % len(LABELS)], decorates=second % 2 == 1)
        elif kind == "collect":
            self._enter_collection(context, second)
        elif kind == "leave" and self.entered[context]:
            self._leave(context)
        elif kind == "raise" and self.entered[context]:
            self._raise(context, 1 + second % len(self.entered[context]))
        elif kind == "enter label" and len(self.labels[context]) < DEEPEST:
            label = LABELS[second % len(LABELS)]
            self._send(context, kind, label=label)
            self.labels[context].append(label)
        elif kind == "exit label" and self.labels[context]:
            self._exit_label(context, self.labels[context][second % len(self.labels[context])])
        elif kind in {"nothing", "leave", "raise", "enter label", "exit label"}:
            pass
        elif kind == "hand round":
            self._send(context, kind, threads=2 + first % 3, size=1 + second)
        elif kind == "storm" and self.is_tracing and not self.steps:
            self._storm(1 + second % 20)
        else:
            own = [number for number in self.tensors if number != STORM]
            if own:
                self._act_on_tensor(kind, context, own[first % len(own)], second)

    def _act_on_tensor(self, kind: str, context: str, number: int, second: int) -> None:
        block = self.tensors[number]
        if kind == "free":
            self._free(context, number)
        elif kind == "view" and block.address:
            self._send(context, kind, id=self._new_id(), of=number)
            block.users += 1
            self.tensors[self.next_id] = block
        elif kind == "resize" and block.users == 1:
            self._replace(context, number, SIZES[1 + second % (len(SIZES) - 1)])
        elif kind == "compute":
            self._new_block(context, kind, of=number)
        elif kind == "label tensor" and block.address:
            label = LABELS[second % len(LABELS)]
            self._send(context, kind, id=number, label=label)
            block.labels = with_added(block.labels, shown(label))

    def _new_id(self) -> int:
        self.next_id += 1
        return self.next_id

    def _allocate(self, context: str, size: int) -> None:
        self._new_block(context, "allocate", size=size)

    def _new_block(self, context: str, kind: str, **arguments: Any) -> None:
        before, allocated = self.sequence, self.allocated
        number = self._new_id()
        answer = self._send(context, kind, id=number, is_new=True, **arguments)
        block = Block(answer["address"], self.allocated - allocated, self._labels_of(context), before)
        self._adopt(number, block)

    def _adopt(self, number: int, block: Block) -> None:
        block.is_checked = block.size > 0
        self.tensors[number] = block
        self.blocks.append(block)
        self._settle()

    def _replace(self, context: str, number: int, size: int) -> None:
        """Resizing allocates the new block and frees the old one."""
        old, before, allocated = self.tensors[number], self.sequence, self.allocated
        answer = self._send(context, "resize", id=number, size=size, is_new=True)
        if answer["address"] == old.address:
            assert self.allocated == allocated
            self._settle()
            return
        old.last_sequence = self.sequence
        size = old.size + self.allocated - allocated
        self._adopt(number, Block(answer["address"], size, self._labels_of(context), before))

    def _free(self, context: str, number: int) -> None:
        block = self.tensors.pop(number)
        block.users -= 1
        self._send(context, "free", id=number)
        if block.users == 0:
            block.last_sequence = self.sequence

    def _control(self, context: str, kind: str) -> None:
        if kind == "step" and self.is_tracing:
            self.target.ended_steps += 1
        elif kind != "step":
            self.is_tracing = kind == "start"
        self._send(context, kind)

    def _configure(self, context: str, choice: int) -> None:
        self._send(context, "configure", settings=self._chosen_settings(choice))

    def _chosen_settings(self, choice: int) -> dict[str, Any]:
        """Choose settings, and follow what they mean; each call begins from the defaults."""
        after = self.target.ended_steps + 1
        settings: list[dict[str, Any]] = [
            {},
            {"events": "alloc,free"},
            {"events": ""},
            {"events": "launch"},
            {"events": ["access", "traceback"]},
            {"call_stack": {"python": 5, "c": 5}},
            {"call_stack": ""},
            {"steps": [after, after + 2]},
            {"steps": [after + 1]},
            {"analysis": "decompose"},
            {"analysis": "", "events": ""},
            {"level": "op,kernel", "events": "launch,free"},
        ]
        chosen = settings[choice % len(settings)]
        self.steps = tuple(chosen.get("steps", ()))
        self.events = chosen.get("events", "alloc,free")
        return chosen

    def _enter_label(self, context: str, label: str, *, decorates: bool) -> None:
        if len(self.entered[context]) < DEEPEST:
            self.labels[context].append(label)
            self.entered[context].append(label)
            self._send(context, "label", label=label, decorates=decorates)

    def _enter_collection(self, context: str, choice: int) -> None:
        if len(self.entered[context]) >= DEEPEST:
            return
        begins = not self.is_tracing
        settings = self._chosen_settings(choice) if begins and choice % 3 else {}
        self.is_tracing = True
        self.entered[context].append(begins)
        self._send(context, "collect", settings=settings)

    def _leave(self, context: str) -> None:
        self._forget_innermost(context)
        self._send(context, "leave")

    def _raise(self, context: str, levels: int) -> None:
        for _ in range(levels):
            self._forget_innermost(context)
        self._send(context, "raise", levels=levels)

    def _forget_innermost(self, context: str) -> None:
        entered = self.entered[context].pop()
        if isinstance(entered, str):
            self._forget_label(context, entered)
        elif entered:
            self.is_tracing = False

    def _exit_label(self, context: str, label: str) -> None:
        self._forget_label(context, label)
        self._send(context, "exit label", label=label)

    def _forget_label(self, context: str, label: str) -> None:
        labels = self.labels[context]
        if label in labels:
            del labels[len(labels) - 1 - labels[::-1].index(label)]

    def _storm(self, cycles: int) -> None:
        self._free_storm()
        allocated = self.allocated
        self._send("main", "storm", cycles=cycles, size=700, is_new=True)
        self._adopt(STORM, Block(0, self.allocated - allocated, {}, self.sequence))
        self.tensors[STORM].is_checked = False

    def _free_storm(self) -> None:
        if STORM in self.tensors:
            self.tensors.pop(STORM).users = 0
            self._send("main", "free storm")

    # --- rules

    @property
    def records_blocks(self) -> bool:
        """Whether memory events are recorded now."""
        return self._collects and self.events != "launch"

    @property
    def _collects(self) -> bool:
        is_chosen_step = not self.steps or self.target.ended_steps + 1 in self.steps
        return self.is_tracing and is_chosen_step and self.events != ""

    def _labels_of(self, context: str) -> dict[LabelLevel, str]:
        """Up to three different labels, in the order in which they were entered."""
        return dict(zip(USER_LEVELS, map(shown, dict.fromkeys(self.labels[context])), strict=False))

    def _send(self, context: str, kind: str, *, is_new: bool = False, **arguments: Any) -> dict[str, Any]:
        answer = self.target.ask(**{"in": context, "do": kind}, **arguments)
        assert answer["collects"] == self._collects, f"{kind} in {context}: collects={answer['collects']}"
        self.allocated, self.sequence = answer["allocated"], answer["sequence"]
        self.done = f"{kind} in {context} {arguments}"
        if not is_new:
            self._settle()
        return answer

    def _settle(self) -> None:
        """From here on, blocks that are alive are recorded, if blocks are. The log must then show so many bytes."""
        alive = {id(block): block for block in self.tensors.values()}.values()
        for block in alive:
            block.is_recorded |= self.records_blocks
        unrecorded = sum(block.size for block in alive if not block.is_recorded)
        self.checkpoints.append((self.sequence, self.allocated - unrecorded, self.done))

    # --- comparison

    def recorded_bytes(self) -> int:
        """Bytes that are alive in the log."""
        return bytes_alive(self._of_pool(events_of(Capture(self.target.directory))))

    def _of_pool(self, events: pl.DataFrame) -> pl.DataFrame:
        pool, device = (Pool.PTA, 0) if self.target.device == "npu" else (Pool.HOST, DEVICE_CPU)
        return events.filter(pl.col("kind").is_in(list(map(int, MEMORY_KINDS))), pool=int(pool), device=device)

    def check(self) -> None:
        """Compare the whole log with torch's figures, and the labels of each block with the rules."""
        capture = Capture(self.target.directory)
        events = events_of(capture)
        assert_sound(events)
        memory = self._of_pool(events)
        signed = memory["size"].to_numpy() * np.where(memory["kind"].to_numpy() == EventKind.MALLOC, 1, -1)
        alive = np.concatenate([[0], np.cumsum(signed)])
        places = np.searchsorted(memory["sequence"].to_numpy(), [sequence for sequence, _, _ in self.checkpoints])
        for place, (sequence, expected, done) in zip(places, self.checkpoints, strict=True):
            recorded = int(alive[place]) - self.target.unrelated_bytes
            assert recorded == expected, (
                f"event {sequence}, after {done}: {recorded} bytes recorded, torch has {expected}"
            )
        self._check_labels(capture, events, memory)

    def _check_labels(self, capture: Capture, events: pl.DataFrame, memory: pl.DataFrame) -> None:
        first = min((block.first_sequence for block in self.blocks), default=0)
        recent = memory.filter(pl.col("kind") == int(EventKind.MALLOC), pl.col("sequence") >= first)
        records: dict[int, list[dict[str, Any]]] = {}
        for record in recent.iter_rows(named=True):
            records.setdefault(record["address"], []).append(record)
        given = events.filter(pl.col("kind") == int(EventKind.OWNER)).group_by("extra", maintain_order=True)
        labels_given = {key[0]: rows["attribute_id"].to_list() for key, rows in given}
        for block in self.blocks:
            if not block.is_checked:
                continue
            mine = [
                record
                for record in records.get(block.address, [])
                if block.first_sequence <= record["sequence"] < block.last_sequence
            ]
            assert len(mine) == block.is_recorded, f"{block}: {mine}"
            if mine:
                texts = [mine[0]["extra"], *labels_given.get(mine[0]["sequence"], [])]
                found: dict[LabelLevel, str] = {}
                for text in texts:
                    for label in decode_labels(capture.strings.get(text, "")).values():
                        found = with_added(found, label)
                assert found == block.labels, f"{block}: labelled {found}"


def with_added(labels: dict[LabelLevel, str], label: str) -> dict[LabelLevel, str]:
    """A tensor's labels, with one more behind them: unless it is there, or the three levels are taken."""
    return dict(zip(USER_LEVELS, dict.fromkeys([*labels.values(), label]), strict=False))


def shown(label: str) -> str:
    """A label as it is recorded: control characters are escapes."""
    return label.replace("\t", "\\t")
