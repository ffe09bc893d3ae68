"""Which operators are called like one that never ran."""

from __future__ import annotations

import pytest

from msmemscope.analysis.watch.similar_operators import similar_operators

RAN = (
    "torch._ops.aten.mm.default", "torch._ops.aten.addmm.default", "torch._ops.aten.convolution.default",
    "0_MmOperation/0_Mm", "Neg_b574e8fb_0", "torch._ops.faulty.scale.default",
)  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "similar"),
    [
        ("aten.mm", ("torch._ops.aten.mm.default", "0_MmOperation/0_Mm", "torch._ops.aten.addmm.default")),
        (
            "torch._ops.aten.mm.out",
            ("torch._ops.aten.mm.default", "0_MmOperation/0_Mm", "torch._ops.aten.addmm.default"),
        ),
        ("skale", ("torch._ops.faulty.scale.default",)),
        ("torch._ops.aten.neg.out", ("Neg_b574e8fb_0",)),
        ("torch._ops.aten.relu.default", ()),
        ("", ()),
    ],
)
def test_similar_names(wanted: str, similar: tuple[str, ...]) -> None:
    """The same in another overload or library first, then slips of the pen, then parts of each other."""
    assert similar_operators(wanted, RAN) == similar
