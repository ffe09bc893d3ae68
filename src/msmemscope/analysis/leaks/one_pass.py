"""Growth within one forward pass: each layer saves tensors for the backward pass, and nothing can have freed them yet.

A recording of a single pass shows a module that calls its layers in a loop, and more and more in use. A loop over many
passes that keeps their results looks alike. But then the module's work before and after its loop comes again with each
pass, between the allocations of two passes' layers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.recording.source_lines import line_text, stack_frames

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msmemscope.recording import Recording
    from msmemscope.recording.source_lines import StackFrame

_MODULE_FILE: Final = "/torch/nn/modules/module.py"
_MODULE_CALL: Final = "_call_impl"


def line_of_one_pass(recording: Recording, grown: pl.Series) -> str:
    """Find the line of a module whose single forward pass allocated all that has grown.

    Args:
        recording: Of a process.
        grown: `malloc_sequence` of the blocks.

    Returns:
        The line, as `file(line): function`; empty if there is none, or if it cannot be told that the pass was the only one.
    """
    blocks = recording.blocks.select("malloc_sequence", "python_stack_id")
    is_grown = pl.col("malloc_sequence").is_in(grown.implode())
    spans = blocks.group_by("python_stack_id").agg(
        pl.col("malloc_sequence").min().alias("first"),
        pl.col("malloc_sequence").max().alias("last"),
        is_grown.any().alias("is_grown"),
    )
    texts = spans.join(recording.python_stacks, left_on="python_stack_id", right_on="id", how="left")
    stacks = [
        (stack_frames(text or "")[::-1], first, last, is_of_grown)
        for text, first, last, is_of_grown in texts.select("text", "first", "last", "is_grown").iter_rows()
    ]
    shared = _shared_frames([frames for frames, _, _, is_of_grown in stacks if is_of_grown])
    own = blocks.filter(is_grown)["malloc_sequence"]
    begin, end = own.min(), own.max()
    for place in _forwards(shared):
        beside = [
            last < begin or first > end
            for frames, first, last, _ in stacks
            if frames[:place] == shared[:place] and len(frames) > place and _is_elsewhere(frames[place], shared[place])
        ]
        if beside and all(beside):
            return line_text(shared[place])
    return ""


def _shared_frames(stacks: Sequence[Sequence[StackFrame]]) -> list[StackFrame]:
    """Return the outermost frames that all stacks have in common."""
    shared = []
    for frames in zip(*stacks, strict=False):
        if any(frame != frames[0] for frame in frames):
            break
        shared.append(frames[0])
    return shared


def _forwards(frames: Sequence[StackFrame]) -> list[int]:
    """Return the places of frames that calls of modules lead to, innermost first, without those of torch itself."""
    return [
        place
        for place in range(len(frames) - 1, 0, -1)
        if frames[place - 1].file.endswith(_MODULE_FILE)
        and frames[place - 1].function == _MODULE_CALL
        and not frames[place].file.endswith(_MODULE_FILE)
    ]


def _is_elsewhere(frame: StackFrame, looping: StackFrame) -> bool:
    return (frame.file, frame.function) == (looping.file, looping.function) and frame.line != looping.line
