"""Labels of owners: who a block belongs to, from the component of a framework down to the user's own words.

A set of labels is recorded as text, one line per label: a digit, the level, and the label. This module is imported
inside the observed process, so it imports nothing but `enum` and `typing`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable


class LabelLevel(IntEnum):
    """The place of a label in an owner; the owner's labels stand in this order behind the name of the allocator."""

    COMPONENT = 1
    """A framework: `vllm`, `fsdp2`."""
    PROCESS = 2
    """Its action: `profile`, `backward`."""
    DETAIL_1 = 3
    """The contents of the memory: `weights`, `model@gradient`."""
    DETAIL_2 = 4
    USER_1 = 5
    USER_2 = 6
    USER_3 = 7


USER_LEVELS: Final = (LabelLevel.USER_1, LabelLevel.USER_2, LabelLevel.USER_3)
"""Where the user's labels go, the outermost first."""

USER_LABELS_FACT: Final = "labels.user"
"""Key of the fact that the program gives labels of its own."""

MODEL_WEIGHT: Final = "model@weight"
MODEL_GRADIENT: Final = "model@gradient"
MODEL_OPTIMIZER_STATE: Final = "model@optimizer_state"
MODEL_ACTIVATION: Final = "model@activation"
KV_CACHE: Final = "kv_cache"
PROGRAM: Final = "program"
"""Blocks that live over the end of a step, where nothing else says what they are: the program holds them."""
WORKSPACE: Final = "workspace"
"""Blocks that a library of a CUDA device keeps to work in: cuBLAS."""
OPS_ATEN: Final = "ops@aten"
_MODEL: Final = "model@"


def is_of_model(label: str) -> bool:
    """Whether a label on the level of details says that memory is a part of the model; these stand first in an owner."""
    return label.startswith(_MODEL)


def module_label(path: str) -> str:
    """Return the label, on the level DETAIL_2, of a weight that a module holds.

    The parentheses tell it from a label of the user.

    Args:
        path: The class of the outermost module, and the names that lead to the module: `GPT.blocks.0.attention`.
    """
    return f"({path})"


def encode_labels(labels: Iterable[tuple[str, LabelLevel]]) -> str:
    r"""Write labels as they are recorded: `"2profile\n5test1"`.

    Args:
        labels: Each with its level; without control characters.
    """
    return "\n".join(f"{int(level)}{label}" for label, level in labels)


def decode_labels(text: str) -> dict[LabelLevel, str]:
    """Read the text of `encode_labels`. Of two labels on one level the later counts; unknown levels are skipped."""
    labels: dict[LabelLevel, str] = {}
    for line in text.split("\n"):
        level = _LEVEL_OF_DIGIT.get(line[:1])
        if level is not None:
            labels[level] = line[1:]
    return labels


_LEVEL_OF_DIGIT: Final = {str(int(level)): level for level in LabelLevel}
