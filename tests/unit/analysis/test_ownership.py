"""Who owns each block, from built event logs and against an oracle in plain Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.analysis.owners.ownership import NO_ACCESSES, AttributesOf, find_owners, owners_of_capture
from msmemscope.formats.attributes import table_of_texts
from msmemscope.formats.event_log import Capture
from msmemscope.model.attributes import AttributeKey
from msmemscope.model.devices import DeviceKind, device_number
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from msmemscope.recording import EVENT_SCHEMA, STRING_SCHEMA
from tests.fakes.event_log_builder import (
    ATB,
    ATEN_START,
    BACKWARD,
    CPU,
    HAL,
    HOST,
    MIND_SPORE,
    PTA,
    PTA_WORKSPACE,
    READ,
    RECOMPUTED,
    SHADOW,
    WRITE,
    EventLogBuilder,
)
from tests.support.nightly import examples

if TYPE_CHECKING:
    from collections.abc import Iterable

NPU = {"pool": PTA, "device": 0}


def owners(builder: EventLogBuilder) -> dict[int, str]:
    """Sequence number of each MALLOC to the owner of its block."""
    return dict(owners_of_capture(Capture(builder.write())).owners.rows())


def owner_of_one(builder: EventLogBuilder) -> str:
    """The owner of the only block."""
    (owner,) = owners(builder).values()
    return owner


@pytest.mark.parametrize(
    ("place", "printed", "expected"),
    [
        ({"pool": HAL, "device": 0}, "CANN@RUNTIME,page_type:huge,alloc_type:alloc", "CANN@RUNTIME"),
        ({"pool": HAL, "device": 0}, "CANN@APP", "CANN@APP"),
        ({"pool": HAL, "device": 0}, "page_type:huge,alloc_type:create", "CANN@UNKNOWN"),
        ({"pool": HAL, "device": 0}, "", "CANN@UNKNOWN"),
        ({"pool": HAL, "device": CPU}, "pinned:true", "HOST@pinned"),
        ({"pool": HAL, "device": CPU}, "", "HOST@pinned"),
        ({"pool": HOST, "device": CPU}, "pinned:true", "HOST@pinned"),
        ({"pool": HOST, "device": CPU}, "", "HOST"),
        ({"pool": PTA, "device": 0}, "", "PTA"),
        ({"pool": PTA_WORKSPACE, "device": 0}, "", "PTA_WORKSPACE"),
        ({"pool": ATB, "device": 0}, "", "ATB"),
        ({"pool": MIND_SPORE, "device": 0}, "", "MINDSPORE"),
        ({"pool": 99, "device": 0}, "", "N/A"),
    ],
)
def test_what_allocated(builder: EventLogBuilder, place: dict[str, int], printed: str, expected: str) -> None:
    """The module of CANN, or the pool, is the first part, and all of it where there are no labels."""
    builder.malloc(0x1000, 64, attribute_id=builder.string(printed) if printed else 0, **place)
    assert owner_of_one(builder) == expected


def test_labels_stand_in_the_order_of_their_levels(builder: EventLogBuilder) -> None:
    """However they were written; levels without a label are left out, and one that does not exist is ignored."""
    labels = builder.labels("7third", "3weights", "5first", "1vllm", "9no such level", "2profile", "4lora", "6second")
    builder.malloc(0x1000, 64, extra=labels, **NPU)
    assert owner_of_one(builder) == "PTA@vllm@profile@weights@lora@first@second@third"


def test_later_labels_replace_those_of_their_level(builder: EventLogBuilder) -> None:
    """Labels of the block come after those of the thread, and the last one counts; other levels stay."""
    block = builder.malloc(0x1000, 64, extra=builder.labels("1fsdp2", "3weights", "5mine"), **NPU)
    other = builder.malloc(0x2000, 64, extra=builder.labels("3weights"), **NPU)
    builder.owner(block, "3model@gradient", **NPU)
    builder.owner(other, "4lora", **NPU)
    builder.owner(block, "3model@weight\n4(GPT.head)", **NPU)
    assert list(owners(builder).values()) == ["PTA@model@weight@fsdp2@(GPT.head)@mine", "PTA@weights@lora"]


def test_labels_of_the_user_are_added(builder: EventLogBuilder) -> None:
    """Those given to a block stand behind those of its thread: each once, and at most three."""
    block = builder.malloc(0x1000, 64, extra=builder.labels("5mine"), **NPU)
    other = builder.malloc(0x2000, 64, **NPU)
    for label in ("5yours", "5mine", "5yours", "5theirs", "5nobody's"):
        builder.owner(block, label, **NPU)
    builder.owner(other, "6else", **NPU)
    assert list(owners(builder).values()) == ["PTA@mine@yours@theirs", "PTA@else"]


def test_a_framework_names_its_weights(builder: EventLogBuilder) -> None:
    """That they are parameters of a module says less; what is a gradient now is one, whatever it was."""
    block = builder.malloc(0x1000, 64, **NPU)
    other = builder.malloc(0x2000, 64, extra=builder.labels("3weights"), **NPU)
    builder.owner(block, "3model@weight\n4(GPT)", **NPU)
    builder.owner(block, "1vllm\n3kv_cache", **NPU)
    builder.owner(block, "3model@weight\n4(GPT)", **NPU)
    builder.owner(other, "3model@gradient", **NPU)
    assert list(owners(builder).values()) == ["PTA@vllm@kv_cache@(GPT)", "PTA@model@gradient"]


def test_what_outlives_a_step_is_held_by_the_program(builder: EventLogBuilder) -> None:
    """Whatever allocated it; weights, activations and what the user has labelled as well stay what they are."""
    operator = builder.string("aten.mm")
    kept = builder.malloc(0x1000, 64, name_id=operator, **NPU)
    mine = builder.malloc(0x2000, 64, extra=builder.labels("5mine"), **NPU)
    weight = builder.malloc(0x3000, 64, extra=builder.labels("3model@weight"), **NPU)
    saved = builder.malloc(0x4000, 64, name_id=operator, **NPU)
    builder.access(saved, 0x4000, **BACKWARD_READ, **NPU)
    short = builder.malloc(0x5000, 64, name_id=operator, **NPU)
    builder.free(short, 0x5000, 64, **NPU)
    builder.add(EventKind.STEP)
    later = builder.malloc(0x5000, 64, name_id=operator, **NPU)
    builder.free(kept, 0x1000, 64, **NPU)
    assert owners(builder) == {
        kept: "PTA@program",
        mine: "PTA@program@mine",
        weight: "PTA@model@weight",
        saved: "PTA@model@activation",
        short: "PTA@ops@aten",
        later: "PTA@ops@aten",
    }


def end_step(builder: EventLogBuilder, how: str) -> None:
    """A step ends, as it is marked, or taken from what the program does."""
    if how == "range":
        begin = builder.add(EventKind.RANGE_START, name_id=builder.string("step start"), extra=7, device=0)
        builder.add(EventKind.RANGE_END, extra=7, sequence=begin + 1)
    elif how == "call":
        builder.add(EventKind.STEP)
    else:
        source = builder.attributes((int(AttributeKey.STEP_SOURCE), how))
        builder.add(EventKind.IMPLIED_STEP, attribute_id=source)


@pytest.mark.parametrize("how", ["range", "call", "optimizer", "module"])
def test_every_way_of_marking_steps_counts(builder: EventLogBuilder, how: str) -> None:
    """The program owns a block that is there when a step begins and when it ends.

    If an optimizer stepped, the step is not quite over.
    """
    operator = builder.string("aten.zeros")
    kept = builder.malloc(0x1000, 64, name_id=operator, **NPU)
    end_step(builder, how)
    batch = builder.malloc(0x2000, 64, name_id=operator, **NPU)
    average = builder.malloc(0x3000, 128, name_id=operator, **NPU)
    end_step(builder, how)
    builder.free(batch, 0x2000, 64, **NPU)
    next_average = builder.malloc(0x4000, 128, name_id=operator, **NPU)
    builder.free(average, 0x3000, 128, **NPU)
    newest = builder.malloc(0x2000, 64, name_id=operator, **NPU)
    end_step(builder, how)
    found = owners(builder)
    is_marked = how in {"range", "call"}
    assert found == {
        kept: "PTA@program",
        batch: "PTA@program" if is_marked else "PTA@ops@aten",
        average: "PTA@program",
        next_average: "PTA@program",
        newest: "PTA@program",
    }


@pytest.mark.parametrize(
    ("name", "is_workspace"),
    [
        ("torch._ops.aten.addmm.default", True),
        ("torch._ops.aten._scaled_mm.default", True),
        ("torch._ops.aten.hamming_window.default", False),
        ("torch._ops.aten.cumsum.default", False),
    ],
)
def test_workspaces_of_matrix_products(builder: EventLogBuilder, name: str, *, is_workspace: bool) -> None:
    """A product keeps a block that no operator uses; its result is one that operators do use."""
    place = {"pool": int(Pool.CUDA), "device": device_number(DeviceKind.CUDA, 0)}
    operator = builder.string(name)
    kept = builder.malloc(0x1000, 64, name_id=operator, **place)
    result = builder.malloc(0x2000, 64, name_id=operator, **place)
    builder.add(WRITE, address=0x2000, size=64, extra=result, name_id=operator, **place)
    end_step(builder, "call")
    end_step(builder, "call")
    assert owners(builder) == {kept: "CUDA@workspace" if is_workspace else "CUDA@program", result: "CUDA@program"}


def test_what_a_program_has_at_its_end(builder: EventLogBuilder) -> None:
    """Is freed by the interpreter, after everything else: where steps are taken from an optimizer, that says who held it."""
    operator = builder.string("aten.zeros")
    batch = builder.malloc(0x1000, 64, name_id=operator, **NPU)
    kept = builder.malloc(0x2000, 64, name_id=operator, **NPU)
    end_step(builder, "optimizer")
    newest = builder.malloc(0x3000, 128, name_id=operator, **NPU)
    builder.free(batch, 0x1000, 64, **NPU)
    builder.fact("process.ended_at", str(newest + 2))
    builder.free(kept, 0x2000, 64, **NPU)
    builder.free(newest, 0x3000, 128, **NPU)
    assert owners(builder) == {batch: "PTA@ops@aten", kept: "PTA@program", newest: "PTA@program"}


@pytest.mark.parametrize(
    ("reader", "count", "is_cache"),
    [
        ("aten._scaled_dot_product_flash_attention.default", 1, True),
        ("aten.bmm.default", 2, True),  # a pair
        ("aten.bmm.default", 1, False),
        ("aten.eq.Tensor", 2, False),  # results that a program gathers
    ],
)
def test_what_grows_and_is_read_by_attention(
    builder: EventLogBuilder, reader: str, count: int, *, is_cache: bool
) -> None:
    """Keys and values, each time concatenated with the next ones; a step is a token."""
    cat, made, read = (builder.string(f"torch._ops.{name}") for name in ("aten.cat.default", "aten.mm.default", reader))
    held: dict[int, int] = {}
    found = {}
    for token in range(4):
        for one in range(count):
            part = builder.malloc(0x100000 * one + 0x1000, 64, name_id=made, **NPU)
            if token == 0:
                held[one] = part
                continue
            for each in (held[one], part):
                builder.access(each, 0x1000, kind=READ, name_id=cat, **NPU)
            whole = builder.malloc(0x100000 * one + 0x2000 * token, 64 * (token + 1), name_id=cat, **NPU)
            for each in (held[one], part):
                builder.free(each, 0x1000, 64, **NPU)
            builder.access(whole, 0x2000, kind=READ, name_id=read, **NPU)
            held[one] = whole
            found[whole] = "PTA@kv_cache" if is_cache else "PTA@program"
        builder.add(EventKind.STEP)
    assert found.items() <= owners(builder).items()


def test_two_backward_passes_of_a_step(builder: EventLogBuilder) -> None:
    """With a forward pass between them, they read what was saved once; a mask is read in many steps."""
    operator = builder.string("aten.mm")
    mask = builder.malloc(0x1000, 64, name_id=operator, **NPU)
    found = {mask: "PTA@program"}
    for _ in range(2):
        saved = builder.malloc(0x2000, 64, name_id=operator, **NPU)
        for use in (FORWARD_READ, BACKWARD_READ) * 2:
            builder.access(saved, 0x2000, **use, **NPU)
            builder.access(mask, 0x1000, **use, **NPU)
        builder.add(EventKind.STEP)
        builder.free(saved, 0x2000, 64, **NPU)
        found[saved] = "PTA@model@activation"
    assert owners(builder) == found


@pytest.mark.parametrize(
    ("flags", "uses", "expected"),
    [
        (BACKWARD | RECOMPUTED, [BACKWARD], "model@activation"),
        (BACKWARD | RECOMPUTED, [BACKWARD | RECOMPUTED], "ops@aten"),  # on the way to what is saved
        (0, [BACKWARD | RECOMPUTED], "model@activation"),  # a checkpoint begins with this block
        (0, [BACKWARD | RECOMPUTED, 0, BACKWARD | RECOMPUTED], "ops@aten"),
        (BACKWARD, [BACKWARD | RECOMPUTED], "ops@aten"),
    ],
)
def test_recomputation(builder: EventLogBuilder, flags: int, uses: list[int], expected: str) -> None:
    """Memory that a checkpoint makes again is an activation if the backward pass itself reads it."""
    block = builder.malloc(0x1000, 64, name_id=builder.string("aten.mm"), flags=flags, **NPU)
    for use in uses:
        builder.access(block, 0x1000, kind=READ, flags=use, **NPU)
    assert owner_of_one(builder) == f"PTA@{expected}"


def test_saved_tensors_are_activations(builder: EventLogBuilder) -> None:
    """Before any backward pass, unless they are something else; not what backward passes read again and again."""
    weight = builder.malloc(0x1000, 64, extra=builder.labels("3model@weight"), **NPU)
    saved = builder.malloc(0x2000, 64, extra=builder.labels("5mine"), **NPU)
    mask = builder.malloc(0x3000, 64, **NPU)
    for use in (BACKWARD_READ, FORWARD_READ, BACKWARD_READ):
        builder.access(mask, 0x3000, **use, **NPU)
    for block in (weight, saved, mask):
        builder.owner(block, "3model@activation", **NPU)
    assert list(owners(builder).values()) == ["PTA@model@weight", "PTA@model@activation@mine", "PTA@ops@aten"]


def test_labels_of_unknown_blocks_are_ignored(builder: EventLogBuilder) -> None:
    """A flight recorder can have dropped the MALLOC; nobody else gets its label."""
    block = builder.malloc(0x1000, 64, sequence=10, **NPU)
    for unknown in (0, 9, 11, 2**63):
        builder.owner(unknown, "3model@weight", **NPU)
        builder.access(unknown, 0x1000, **NPU)
    assert owners(builder) == {block: "PTA"}


def test_labels_whose_text_is_not_there(builder: EventLogBuilder) -> None:
    """The process died before it was defined: the block has an owner all the same."""
    builder.malloc(0x1000, 64, extra=77, **NPU)
    assert owner_of_one(builder) == "PTA"


def test_memory_of_operators(builder: EventLogBuilder) -> None:
    """Allocated inside an operator, or used by one; what no operator touched has only the user's label."""
    operator = builder.string("torch._ops.aten.add.Tensor")
    mine = builder.labels("5test1")
    inside = builder.malloc(0x1000, 64, name_id=operator, **NPU)
    used = builder.malloc(0x2000, 64, **NPU)
    labelled = builder.malloc(0x3000, 64, name_id=operator, extra=mine, **NPU)
    untouched = builder.malloc(0x4000, 64, extra=mine, **NPU)
    of_tool = builder.malloc(0x5000, 64, name_id=operator, extra=builder.labels("2kv_cache", "5test1"), **NPU)
    builder.access(used, 0x2000, kind=WRITE, **NPU)
    assert owners(builder) == {
        inside: "PTA@ops@aten",
        used: "PTA@ops@aten",
        labelled: "PTA@ops@aten@test1",
        untouched: "PTA@test1",
        of_tool: "PTA@kv_cache@test1",
    }


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ({"pool": HOST, "device": CPU}, "HOST@ops@aten"),
        ({"pool": HAL, "device": CPU}, "HOST@pinned"),
        ({"pool": PTA_WORKSPACE, "device": 0}, "PTA_WORKSPACE"),
        ({"pool": ATB, "device": 0}, "ATB"),
        ({"pool": MIND_SPORE, "device": 0}, "MINDSPORE"),
        ({"pool": HAL, "device": 0}, "CANN@APP"),
    ],
)
def test_only_tensors_are_of_operators(builder: EventLogBuilder, place: dict[str, int], expected: str) -> None:
    """A pool that grows while an operator runs gets memory for all that follow."""
    printed = builder.string("CANN@APP") if expected.startswith("CANN") else 0
    block = builder.malloc(0x1000, 64, name_id=builder.string("aten.add"), attribute_id=printed, **place)
    builder.access(block, 0x1000, **place)
    assert owner_of_one(builder) == expected


FORWARD_READ = {"kind": READ}
FORWARD_WRITE = {"kind": WRITE}
BACKWARD_READ = {"kind": READ, "flags": BACKWARD}
BACKWARD_WRITE = {"kind": WRITE, "flags": BACKWARD}


@pytest.mark.parametrize(
    ("flags", "uses", "expected"),
    [
        (0, [FORWARD_WRITE, FORWARD_READ, BACKWARD_READ], "model@activation"),
        (0, [BACKWARD_READ], "model@activation"),
        (0, [FORWARD_READ, BACKWARD_READ, BACKWARD_READ, BACKWARD_WRITE, BACKWARD_READ], "model@activation"),
        (0, [FORWARD_READ, BACKWARD_READ, FORWARD_READ], "model@activation"),  # a loss that is looked at again
        (0, [FORWARD_WRITE, FORWARD_READ], "ops@aten"),
        (0, [BACKWARD_WRITE], "ops@aten"),
        (BACKWARD, [BACKWARD_WRITE, BACKWARD_READ], "ops@aten"),  # a gradient on its way
        (BACKWARD, [BACKWARD_WRITE, FORWARD_READ, BACKWARD_READ], "model@gradient"),  # one that is taken, or added to
        (SHADOW, [FORWARD_READ, BACKWARD_READ], "ops@aten"),
        (0, [FORWARD_READ, BACKWARD_READ, FORWARD_READ, BACKWARD_READ], "ops@aten"),  # a frozen weight
        (0, [FORWARD_READ, BACKWARD_READ, FORWARD_WRITE, BACKWARD_READ], "ops@aten"),  # a buffer that is filled anew
        (0, [FORWARD_READ, BACKWARD_READ] * 300, "ops@aten"),
    ],
)
@pytest.mark.parametrize("rows", [1, 2, 1000])
def test_activations(
    builder: EventLogBuilder, flags: int, uses: list[dict[str, int]], expected: str, rows: int
) -> None:
    """Made in forward, read in one stretch of backward; wherever batches of events begin and end."""
    operator = builder.string("aten.mm")
    block = builder.malloc(0x1000, 64, name_id=operator, flags=flags, **NPU)
    for use in uses:
        builder.access(block, 0x1000, **use, **NPU)
    capture = Capture(builder.write())
    found = find_owners(capture.event_batches(rows), capture.strings, capture.attribute_frame)
    assert found.owners.rows() == [(block, f"PTA@{expected}")]
    assert found.coverage == ()


def test_a_label_of_a_tool_outranks_an_activation(builder: EventLogBuilder) -> None:
    """Weights are read in backward passes too."""
    weight = builder.malloc(0x1000, 64, name_id=builder.string("aten.normal_"), **NPU)
    builder.access(weight, 0x1000, **BACKWARD_READ, **NPU)
    builder.owner(weight, "3model@weight", **NPU)
    assert owner_of_one(builder) == "PTA@model@weight"


def test_coverage_without_accesses(builder: EventLogBuilder) -> None:
    """Operators alone cannot tell activations: that is said, and only then."""
    builder.malloc(0x1000, 64, **NPU)
    capture = Capture(builder.write())
    assert find_owners(capture.event_batches(), capture.strings, capture.attribute_frame).coverage == ()
    builder.add(ATEN_START, name_id=builder.string("aten.mm"))
    block = builder.malloc(0x2000, 64, name_id=builder.string("aten.mm"), **NPU)
    capture = Capture(builder.write())
    found = find_owners(capture.event_batches(), capture.strings, capture.attribute_frame)
    assert found.coverage == (NO_ACCESSES,)
    assert found.owners["owner"].to_list() == ["PTA", "PTA@ops@aten"]
    builder.access(block, 0x2000, **NPU)
    capture = Capture(builder.write())
    assert find_owners(capture.event_batches(), capture.strings, capture.attribute_frame).coverage == ()


def test_nothing_at_all() -> None:
    """No events, no blocks."""
    found = find_owners([], {}, attributes_of({}))
    assert found.owners.is_empty()
    assert found.owners.columns == ["sequence", "owner"]
    assert find_owners([EVENT_SCHEMA.to_frame()], {}, attributes_of({})).owners.is_empty()


TEXTS = {
    1: "CANN@APP,page_type:huge,alloc_type:alloc",
    2: "pinned:true",
    3: "3model@weight",
    4: "3model@gradient",
    5: "1vllm\n5mine",
    6: "5yours\n6more",
    7: "4detail",
    8: "5\n2",
    9: "3model@activation",
    10: "3weights\n5his",
}


def attributes_of(texts: dict[int, str]) -> AttributesOf:
    """Looks up the attributes that some texts stand for."""
    table = table_of_texts(pl.DataFrame({"id": list(texts), "text": list(texts.values())}, schema=STRING_SCHEMA))
    return lambda _: table


@dataclass
class OracleBlock:
    """The knowledge about a block so far."""

    pool: int
    device: int
    attributes: str
    of_operator: bool
    flags: int
    is_saved: bool = False
    ends_outlived: int = 0
    ends_ended: int = 0
    is_free: bool = False
    levels: dict[int, str] = field(default_factory=dict)
    uses: list[tuple[bool, bool]] = field(default_factory=list)
    """Whether in a backward pass, whether a read."""

    def use(self, flags: int, *, is_read: bool) -> None:
        """Take a use on; what was made again is used in the forward pass that was run again."""
        is_again = flags & self.flags & RECOMPUTED
        self.uses.append((bool(flags & BACKWARD) and not is_again, is_read))

    def label(self, text: str, *, adds: bool = False) -> None:
        """Take labels on."""
        for line in text.split("\n"):
            level, label = int(line[0]) if line else 0, line[1:]
            users = [self.levels[each] for each in (5, 6, 7) if each in self.levels]
            if label == "model@activation":
                self.is_saved = True
            elif label == "model@weight" and not self.levels.get(3, "model@").startswith("model@"):
                continue
            elif level >= 5 and adds:
                if label and label not in users and len(users) < 3:
                    self.levels[min({5, 6, 7} - set(self.levels))] = label
            elif label:
                self.levels[level] = label

    def owner(self) -> str:
        """Put it together, as the documents say."""
        if (self.pool, self.device) == (HAL, CPU) or (self.pool, self.attributes) == (HOST, "pinned:true"):
            first = "HOST@pinned"
        elif self.attributes.startswith("CANN"):
            first = "CANN@APP"
        else:
            first = {HAL: "CANN@UNKNOWN", HOST: "HOST", PTA: "PTA", ATB: "ATB"}[self.pool]
        tools = [self.levels[level] for level in (1, 2, 3, 4) if level in self.levels]
        is_tensor = self.pool in {PTA, HOST} and first != "HOST@pinned"
        if 3 in self.levels and self.levels[3].startswith("model@"):
            tools.remove(self.levels[3])
            tools.insert(0, self.levels[3])
        if is_tensor and not {3, 4} & set(self.levels) and self.is_activation():
            tools = ["model@activation", *([self.levels[1]] if 1 in self.levels else [])]
        elif is_tensor and not tools and self.is_gradient():
            tools = ["model@gradient"]
        elif is_tensor and not tools and self.ends_outlived:
            tools = ["program"]
        elif is_tensor and not tools and (self.of_operator or self.uses):
            tools = ["ops@aten"]
        return "@".join([first, *tools, *(self.levels[level] for level in (5, 6, 7) if level in self.levels)])

    def is_activation(self) -> bool:
        """Walk through the uses one by one."""
        if self.flags & SHADOW or (self.flags & BACKWARD and not self.flags & RECOMPUTED):
            return False
        stretches, in_backward = 0, False
        for backward, read in self.uses:
            if backward and read:
                stretches += not in_backward
                in_backward = True
            elif not backward:
                in_backward = False
        is_short = self.ends_outlived <= 1 and self.ends_ended > self.ends_outlived
        return stretches == 1 or (stretches > 1 and is_short) or (stretches == 0 and self.is_saved)

    def is_gradient(self) -> bool:
        """Made by a backward pass, and used by what ran later."""
        is_made_there = self.flags & BACKWARD and not self.flags & RECOMPUTED
        return bool(is_made_there) and self.ends_outlived <= 1 and not all(backward for backward, _ in self.uses)


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Random events of blocks."""
    events: list[dict[str, Any]] = []
    places = st.sampled_from([(HAL, 0), (HAL, CPU), (HOST, CPU), (PTA, 0), (PTA, 1), (ATB, 0)])
    allocations: list[int] = []
    freed: set[int] = set()
    for sequence in range(1, draw(st.integers(1, 60))):
        kind = draw(st.sampled_from(["malloc", "owner", "use", "use", "use", "free", "step"]))
        flags = draw(st.sampled_from([0, 0, BACKWARD, SHADOW, BACKWARD | RECOMPUTED]))
        event: dict[str, Any] = {"sequence": sequence, "flags": flags}
        if kind == "malloc" or not allocations:
            pool, device = draw(places)
            attributes = draw(st.sampled_from([0, 0, 1, 2]))
            event |= {"kind": EventKind.MALLOC, "pool": pool, "device": device, "attribute_id": attributes}
            event |= {
                "name_id": draw(st.integers(0, 1)),
                "extra": draw(st.sampled_from([0, 0, 3, 4, 5, 6, 7, 8, 9, 10])),
            }
            allocations.append(sequence)
        elif kind == "step":
            event["kind"] = EventKind.STEP
        else:
            event["extra"] = draw(st.sampled_from([*allocations, 1000]))
            if kind == "owner":
                event |= {"kind": EventKind.OWNER, "attribute_id": draw(st.sampled_from([3, 4, 5, 6, 7, 8, 9, 10]))}
            elif kind == "free" and event["extra"] not in freed:
                event["kind"] = EventKind.FREE
                freed.add(event["extra"])
            else:
                event["kind"] = draw(st.sampled_from([EventKind.ACCESS_READ, EventKind.ACCESS_WRITE]))
        events.append(event)
    return events


def oracle(events: list[dict[str, Any]]) -> list[tuple[int, str]]:
    """The owners, event by event."""
    blocks: dict[int, OracleBlock] = {}
    for event in events:
        kind, labels = event["kind"], TEXTS.get(event.get("attribute_id", 0), "")
        if kind == EventKind.MALLOC:
            block = OracleBlock(event["pool"], event["device"], labels, event["name_id"] != 0, event["flags"])
            block.label(TEXTS.get(event["extra"], ""))
            blocks[event["sequence"]] = block
        elif kind == EventKind.STEP:
            for block in blocks.values():
                block.ends_outlived += not block.is_free
        elif event["extra"] not in blocks:
            continue
        elif kind == EventKind.OWNER:
            blocks[event["extra"]].label(labels, adds=True)
        elif kind == EventKind.FREE:
            blocks[event["extra"]].is_free = True
        else:
            blocks[event["extra"]].use(event["flags"], is_read=kind == EventKind.ACCESS_READ)
    for block in blocks.values():
        block.ends_ended = sum(event["kind"] == EventKind.STEP for event in events)
    return [(sequence, block.owner()) for sequence, block in blocks.items()]


def in_batches(events: list[dict[str, Any]], rows: int) -> Iterable[pl.DataFrame]:
    """Tables of EVENT_SCHEMA."""
    frame = pl.DataFrame([dict.fromkeys(EVENT_SCHEMA, 0) | event for event in events], schema=EVENT_SCHEMA)
    return frame.iter_slices(rows)


@examples(by_day=30)
@given(events=histories(), rows=st.integers(1, 20))
def test_against_an_oracle(events: list[dict[str, Any]], rows: int) -> None:
    """Any order of allocations, labels and uses, cut into batches anywhere."""
    assert find_owners(in_batches(events, rows), TEXTS, attributes_of(TEXTS)).owners.rows() == oracle(events)
