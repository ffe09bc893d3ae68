"""Watches a tensor that an operator overwrites, before and after a graph is captured."""

from __future__ import annotations

import ctypes

import torch

import msmemscope

RUNTIME = ctypes.CDLL(f"libcudart.so.{(torch.version.cuda or '').partition('.')[0]}")
CALLS = {"made": 0, "wrong": 3}


LIBRARY = torch.library.Library("faulty", "DEF")
LIBRARY.define("scale(Tensor x) -> Tensor")


def scale(values: torch.Tensor) -> torch.Tensor:
    """Give twice the values; one call writes 24 bytes of other memory as well."""
    CALLS["made"] += 1
    if CALLS["made"] == CALLS["wrong"]:
        source = (ctypes.c_char * 24)(*b"x" * 24)
        assert RUNTIME.cudaMemcpy(ctypes.c_void_p(VICTIM.data_ptr() + 100), source, ctypes.c_size_t(24), 1) == 0
    return values * 2


LIBRARY.impl("scale", scale, "CUDA")
VALUES = torch.ones(1000, device="cuda")
VICTIM = torch.zeros(1000, device="cuda")
msmemscope.watcher.watch(VICTIM, name="victim")
GRAPH = torch.cuda.CUDAGraph()
with torch.cuda.graph(GRAPH):
    DOUBLED = VALUES * 2
GRAPH.replay()
# As a library does it that knows the driver alone.
DRIVER, SIDE, CAPTURED = ctypes.CDLL("libcuda.so.1"), torch.cuda.Stream(), ctypes.c_void_p()
with torch.cuda.stream(SIDE):
    assert DRIVER.cuStreamBeginCapture_v2(ctypes.c_void_p(SIDE.cuda_stream), 0) == 0
    torch.add(VALUES, 1, out=DOUBLED)
    assert DRIVER.cuStreamEndCapture(ctypes.c_void_p(SIDE.cuda_stream), ctypes.byref(CAPTURED)) == 0
for _ in range(5):
    torch.ops.faulty.scale(VALUES)
VICTIM[200:210].copy_(torch.ones(10))
torch.cuda.synchronize()
print(f"captured={DOUBLED.numel()}")
