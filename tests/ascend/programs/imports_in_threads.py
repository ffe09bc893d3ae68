"""Imports torch and torch_npu in threads while others open and close a library; then computes. Argument: the loops' library."""

import ctypes
import sys
import threading

loops = ctypes.CDLL(sys.argv[1])
loops.end_loops.restype = ctypes.c_long
opened = ctypes.c_char_p(sys.argv[2].encode())
assert loops.begin_loops(opened) == 0
failures = []
threading.excepthook = lambda failed: failures.append(repr(failed.exc_value))


def import_all(*names: str) -> None:
    """Import modules."""
    for name in names:
        __import__(name)


# torch itself cannot be imported by two threads at once.
groups = (("torch", "torch_npu"), ("ssl",), ("sqlite3",), ("numpy",), ("decimal",), ("lzma", "curses", "readline"))
threads = [threading.Thread(target=import_all, args=names) for names in groups]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
rounds = loops.end_loops()
assert rounds > 0, rounds
assert not failures, failures

import torch  # noqa: E402

total = float((torch.ones(1000, device="npu") * 2).sum())
print(f"total={total:.0f} pool={torch.npu.memory_allocated()}")
