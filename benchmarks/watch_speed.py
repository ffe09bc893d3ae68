"""The cost of watching memory: the checksum beside XXH3 of the xxhash package, and a training step that is watched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from measuring import Measurement, Target, Variant, python, tool

if TYPE_CHECKING:
    from collections.abc import Callable

CHECKSUM_BYTES = {"512 KiB": 512 << 10, "64 MiB": 64 << 20, "1 GiB": 1 << 30}
"""In the cache of a core, beyond the caches, and far beyond them: there the memory is what is measured."""


def checksum_speed(size: str) -> Measurement:
    """The checksums of watched memory, of content of one size."""
    content = CHECKSUM_BYTES[size]
    peer, ours, older = "XXH3, 64 bits", "hash64", "crc64, of older tools"

    def variant(name: str, checksum: str) -> Variant:
        return Variant(name, python("checksum_loop", f"--checksum={checksum}", f"--bytes={content}"))

    variants = [variant(peer, "xxh3"), variant(ours, "hash64")]
    if content <= CHECKSUM_BYTES["64 MiB"]:
        variants.append(variant(older, "crc64"))
    # Each KiB is hashed by itself, so that a change can be placed. Beyond the caches that costs nothing.
    least = 0.8 if content >= CHECKSUM_BYTES["64 MiB"] else 0.5
    return Measurement(
        name=f"watch checksum, {size}",
        unit="GB/s, one thread",
        reference=peer,
        variants=tuple(variants),
        targets={ours: Target(f"at least {least} of XXH3", lambda medians: medians[ours] >= least * medians[peer])},
    )


def watched_training_step() -> Measurement:
    """A step of a small GPT: without the tool, collected, with a tensor of 64 MiB watched, and watched automatically."""
    loop = python("gpt_steps")
    alone, collected, named, automatic = "no tool", "msmemscope", "one tensor of 64 MiB watched", "--watch=auto"
    return Measurement(
        name="watched training step",
        unit="ms per step",
        reference=alone,
        variants=(
            Variant(alone, loop),
            Variant(collected, (*tool("--level=op"), *loop)),
            Variant(named, (*tool("--level=op"), *loop, "--watch")),
            Variant(automatic, (*tool("--level=op", "--watch=auto"), *loop)),
        ),
    )


WATCH_MEASUREMENTS: tuple[Callable[[], Measurement], ...] = (
    *(lambda size=size: checksum_speed(size) for size in CHECKSUM_BYTES),
    watched_training_step,
)
