"""Starts collection while other threads allocate, and says each time how many bytes they hold and where the log is.

Usage: accounting_race.py OUTPUT ROUNDS

One line of key=value pairs per round.
"""

from __future__ import annotations

import sys
import threading

import msmemscope
from msmemscope import _native

# isort: split
import torch

THREADS = 4
KEPT = 8


def main() -> None:
    """Let the threads run while collection ends and begins, and stand still while their bytes are counted."""
    msmemscope.config(events="alloc,free", device="cpu", call_stack="", output=sys.argv[1])
    msmemscope.start()
    meeting = threading.Barrier(THREADS + 1)
    pauses, is_over = threading.Event(), threading.Event()
    held = [[torch.empty(0)] * KEPT for _ in range(THREADS)]

    def work(number: int) -> None:
        place = 0
        while True:
            meeting.wait()
            if is_over.is_set():
                return
            while not pauses.is_set():
                held[number][place % KEPT] = torch.empty(64 + number, dtype=torch.uint8)
                place += 1
            meeting.wait()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    sys.setswitchinterval(1e-5)
    lines = []
    for _ in range(int(sys.argv[2])):
        pauses.clear()
        meeting.wait()
        msmemscope.stop()
        msmemscope.start()
        pauses.set()
        meeting.wait()
        held_bytes = sum(tensor.untyped_storage().nbytes() for tensors in held for tensor in tensors)
        lines.append(f"sequence={_native.next_sequence()} held={held_bytes}")
    is_over.set()
    meeting.wait()
    for thread in threads:
        thread.join()
    print("\n".join(lines))


if __name__ == "__main__":
    main()
