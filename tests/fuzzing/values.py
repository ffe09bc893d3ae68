"""Values that programs stumble over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random

NUMBERS: Final = (
    0, 1, 2, 3, 7, 8, 63, 64, 65, 100, 127, 128, 255, 256, 511, 512, 513, 4095, 4096, 4097,
    *(value for bits in (15, 16, 31, 32, 33, 52, 53, 56, 62, 63, 64) for value in (2**bits - 1, 2**bits, 2**bits + 1)),
    10**17, 10**18, 10**19, 1_700_000_000_000_000_000, 1_700_000_000_000_000,
)  # fmt: skip
"""Unsigned; the same are used below zero."""

NAMES: Final = (
    "torch._ops.aten.add.Tensor", "torch._ops.aten.mm.default", "LinearOperation", "step start", "test", "a",
    "Range end from id 1", "aten::add, out (a b)",
)  # fmt: skip
"""Texts as programs have them."""

TEXTS: Final = (
    *NAMES, "", " ", "\0", "N/A", "NA", "null", "nan", "-nan", "inf", "-inf", "1e309", "-0", "0x", "0x" + "f" * 17, "9" * 19,
    "9" * 20, "9" * 5000, "-9223372036854775808", "-9223372036854775809", "18446744073709551616", "1_000", "\u0661", "\u00b2",
    "=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", "'=1", "''=1", '"=1"', "Range end from id 99999999999999999999",
    '"', '""', '"""', "'", ",", ",,", ";", ":", "{", "}", "{}", '{"a":"\\ud800"}', '{"', '{"a":', '{"a":1}', '{"a":[[1]]}', "[", "[]", "[red]", "[/]",
    "[bold", "\\", "\\x", "%s", "%", "{0}", "{path}", "$(ls)", "`", "\n", "\r\n", "a\nb", "a\tb", "\x1b[31m", "\x1b]0;x\x07", "\x07",
    "\x1c", "\x1e", "\x1f", "\x7f", "\x80", "\x85", "\u2028", "\u202e", "\ufeff", "\ufffd", "\U0001f600", "\U0010ffff", "a" * 3000,
    "\u0300" * 50, "x\n" * 400, "allocation_id:1,addr:0x10,size:1", "{allocation_id:", "size:", "owner:", "owner:a,b:c,d",
    "PTA@model@weight", "CANN@RUNTIME", "CANN@", "0profile", "5label\n5other", "9", "../../etc/passwd", "/", "/dev/zero", "//",
    "CON", "a/b:c", "file.py(1): f\n", "file.py(99999999999999999999): f\n", "file.py(): f\n", "(: \n", "x(-1): \n",
)  # fmt: skip
"""Texts that mean something somewhere: to a parser, a spreadsheet, a terminal, a path."""


def number(rng: random.Random) -> int:
    """Any number: of any size, often one at a border."""
    choice = rng.random()
    value = rng.choice(NUMBERS) if choice < 0.6 else rng.getrandbits(rng.choice((4, 8, 16, 32, 64)))
    return -value if rng.random() < 0.2 else value


def bits(rng: random.Random, count: int) -> int:
    """A number as so many bits hold it, without a sign."""
    return number(rng) & ((1 << count) - 1)


def signed(rng: random.Random, count: int) -> int:
    """A number as so many bits hold it, with a sign."""
    value = bits(rng, count)
    return value - (1 << count) if value >> (count - 1) else value


def text(rng: random.Random) -> str:
    """Any text."""
    choice = rng.random()
    if choice < 0.75:
        return rng.choice(TEXTS)
    if choice < 0.9:
        return rng.choice(TEXTS) + rng.choice(TEXTS)
    return "".join(chr(rng.choice((rng.randrange(32, 127), rng.randrange(256)))) for _ in range(rng.randrange(12)))


def raw_text(rng: random.Random) -> bytes:
    """Any text as bytes, not always UTF-8."""
    content = text(rng).encode()
    return content if rng.random() < 0.9 else damaged(rng, content or b"a")


def damaged(rng: random.Random, content: bytes) -> bytes:
    """The content with one to a few changes: bits, bytes, numbers, parts that are cut, doubled, moved, or foreign."""
    changed = bytearray(content)
    for _ in range(1 + int(rng.expovariate(0.7))):
        _DAMAGES[rng.randrange(len(_DAMAGES))](rng, changed)
    return bytes(changed)


def _flip(rng: random.Random, content: bytearray) -> None:
    if content:
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)


def _set_byte(rng: random.Random, content: bytearray) -> None:
    if content:
        content[rng.randrange(len(content))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))


def _set_number(rng: random.Random, content: bytearray) -> None:
    width = rng.choice((2, 4, 8))
    if len(content) >= width:
        place = rng.randrange(len(content) - width + 1)
        if rng.random() < 0.7:
            place -= place % width
        order = "little" if rng.random() < 0.8 else "big"
        content[place : place + width] = bits(rng, 8 * width).to_bytes(width, order)  # type: ignore[arg-type]


def _cut_end(rng: random.Random, content: bytearray) -> None:
    del content[rng.randrange(len(content) + 1) :]


def _span(rng: random.Random, content: bytearray) -> tuple[int, int]:
    begin = rng.randrange(len(content) + 1)
    return begin, min(len(content), begin + int(rng.expovariate(0.02)))


def _remove(rng: random.Random, content: bytearray) -> None:
    begin, end = _span(rng, content)
    del content[begin:end]


def _double(rng: random.Random, content: bytearray) -> None:
    begin, end = _span(rng, content)
    content[begin:begin] = content[begin:end] * rng.choice((1, 1, 1, 2, 50))


def _move(rng: random.Random, content: bytearray) -> None:
    begin, end = _span(rng, content)
    part = content[begin:end]
    del content[begin:end]
    place = rng.randrange(len(content) + 1)
    content[place:place] = part


def _wipe(rng: random.Random, content: bytearray) -> None:
    begin, end = _span(rng, content)
    content[begin:end] = bytes([rng.choice((0, 0xFF, 0x20, 0x22))]) * (end - begin)


def _insert_text(rng: random.Random, content: bytearray) -> None:
    place = rng.randrange(len(content) + 1)
    content[place:place] = text(rng).encode()


_DAMAGES: Final = (
    _flip, _flip, _set_byte, _set_byte, _set_number, _set_number, _set_number, _cut_end, _remove, _double, _move, _wipe,
    _insert_text,
)  # fmt: skip
