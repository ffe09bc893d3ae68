"""Uses the stand-in for libc10_cuda.so: `stand_in.py LIBRARY WHAT [MORE]`, one of the functions below."""

from __future__ import annotations

import ctypes
import sys

LIBRARY = ctypes.CDLL(sys.argv[1])
for name in ("fake_cuda_allocate", "fake_cuda_allocate_async"):
    getattr(LIBRARY, name).restype = ctypes.c_void_p
LIBRARY.fake_cuda_allocate.argtypes = [ctypes.c_int, ctypes.c_size_t]
LIBRARY.fake_cuda_allocate_async.argtypes = [ctypes.c_size_t]
LIBRARY.fake_cuda_free.argtypes = [ctypes.c_int, ctypes.c_void_p]
LIBRARY.fake_cuda_free_async.argtypes = [ctypes.c_void_p]
LIBRARY.fake_cuda_map.restype = ctypes.c_ulonglong
LIBRARY.fake_cuda_map.argtypes = [ctypes.c_size_t, ctypes.POINTER(ctypes.c_ulonglong)]
LIBRARY.fake_cuda_unmap.argtypes = [ctypes.c_ulonglong, ctypes.c_size_t, ctypes.c_ulonglong]


def blocks() -> None:
    """Two blocks on two devices; the first is freed, and its memory used again."""
    first = LIBRARY.fake_cuda_allocate(0, 1000)
    LIBRARY.fake_cuda_allocate(1, 3 << 20)
    LIBRARY.fake_cuda_free(0, first)
    again = LIBRARY.fake_cuda_allocate(0, 900)
    print(f"first={first} again={again}")


def leak() -> None:
    """Keep a block in each step, and free another."""
    import msmemscope

    def keep() -> None:
        LIBRARY.fake_cuda_allocate(0, 1 << 20)

    for _ in range(12):
        keep()
        LIBRARY.fake_cuda_free(0, LIBRARY.fake_cuda_allocate(0, 3 << 20))
        msmemscope.step()


def mapped() -> None:
    """A segment that grows, and is given back."""
    address = ctypes.c_ulonglong()
    handle = LIBRARY.fake_cuda_map(2 << 20, address)
    print(f"handle={handle} address={address.value}")
    LIBRARY.fake_cuda_unmap(address, 2 << 20, handle)


def asynchronous() -> None:
    """Blocks of the backend that allocates asynchronously."""
    first = LIBRARY.fake_cuda_allocate_async(5000)
    LIBRARY.fake_cuda_free_async(first)
    LIBRARY.fake_cuda_allocate_async(7000)


def kernels() -> None:
    """Launch a kernel three times on a stream, and once on the default one."""
    for stream in (32, 32, 32, 0):
        assert LIBRARY.fake_cuda_launch(ctypes.c_void_p(stream)) == 0


def unnamed() -> None:
    """Launch a kernel without a name, and say what the runtime has as the last error then."""
    print(f"error={LIBRARY.fake_cuda_launch_unnamed()}")


def exhausted() -> None:
    """Ask for more, 1 MiB at a time, until there is none; three times."""
    for _ in range(3):
        while LIBRARY.fake_cuda_allocate(0, 1 << 20):
            pass


def driver() -> None:
    """Memory of the driver and pinned memory, as a library takes it that knows nothing of torch."""
    runtime = ctypes.CDLL("libcudart.so.13")
    memory = ctypes.c_void_p()
    for name, free, more in (
        ("cudaMalloc", "cudaFree", ()),
        ("cudaMallocManaged", "cudaFree", (ctypes.c_uint(1),)),
        ("cudaMallocAsync", "cudaFreeAsync", (None,)),
        ("cudaHostAlloc", "cudaFreeHost", (ctypes.c_uint(0),)),
        ("cuMemAlloc_v2", "cuMemFree_v2", ()),
    ):
        assert getattr(runtime, name)(ctypes.byref(memory), ctypes.c_size_t(4096), *more) == 0
        assert getattr(runtime, free)(memory, *([None] if free == "cudaFreeAsync" else [])) == 0


def connect() -> None:
    """Buffers of another library between blocks of the pool. Most of these blocks are freed before the end."""
    communicator = ctypes.CDLL(sys.argv[3])
    communicator.fake_nccl_connect.restype = ctypes.c_void_p
    communicator.fake_nccl_connect.argtypes = [ctypes.c_size_t]
    LIBRARY.fake_cuda_allocate(0, 1 << 20)
    blocks = [LIBRARY.fake_cuda_allocate(0, 16 << 20) for _ in range(4)]
    communicator.fake_nccl_connect(8 << 20)
    for block in blocks:
        LIBRARY.fake_cuda_free(0, block)


def leak_for_a_while() -> None:
    """As `leak`, and one more block: on a busy machine the figures of the device come half a second late."""
    import time

    leak()
    time.sleep(0.5)
    LIBRARY.fake_cuda_allocate(0, 1 << 20)


globals()[sys.argv[2]]()
