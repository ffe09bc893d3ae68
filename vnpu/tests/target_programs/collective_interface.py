"""The collective library called directly, without a framework: ranks are threads of this process.

torch_npu does not make these calls, or not in this way. They use sub communicators, all-to-all with a matrix of counts,
and groups of messages between several communicators. Others share buffers between communicators, or pass wrong
arguments.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

LIBRARIES = Path(sys.argv[1])
RANKS = 3
DEVICES = 8
MIB = 1 << 20
FLOAT32, FLOAT64, INT128 = 4, 10, 12
SUM, MAXIMUM = 0, 2
ROOT_INFO_BYTES = 4108
CONFIG_BYTES = 2240
MODULE_HCCL = 3

driver = ctypes.CDLL(str(LIBRARIES / "libascend_hal.so"), ctypes.RTLD_GLOBAL)
runtime = ctypes.CDLL(str(LIBRARIES / "libascendcl.so"), ctypes.RTLD_GLOBAL)
library = ctypes.CDLL(str(LIBRARIES / "libhccl.so"), ctypes.RTLD_GLOBAL)
lower = ctypes.CDLL(str(LIBRARIES / "libhcomm.so"))
runtime.aclGetRecentErrMsg.restype = ctypes.c_char_p
library.HcclGetErrorString.restype = ctypes.c_char_p

u64 = ctypes.c_uint64


class CallError(Exception):
    """A call that returned a code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def good(code: int) -> None:
    """Raise what a call left as its error."""
    if code != 0:
        raise CallError(code, runtime.aclGetRecentErrMsg().decode())


def on_all_ranks(function: Callable[[int], None], ranks: int = RANKS) -> list[Exception | None]:
    """Run a function on a thread for each rank; return what each raised."""
    outcomes: list[Exception | None] = [None] * ranks

    def run(rank: int) -> None:
        try:
            good(runtime.aclrtSetDevice(rank % DEVICES))
            function(rank)
        except Exception as error:
            outcomes[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def everywhere(function: Callable[[int], None], ranks: int = RANKS) -> None:
    """Run a function for each rank; none may fail."""
    for outcome in on_all_ranks(function, ranks):
        if outcome is not None:
            raise outcome


def configuration(*, buffer_mib: int = 0xFFFFFFFF, timeout_s: int = -1, buffer_name: bytes = b"") -> ctypes.Array:
    """An HcclCommConfig."""
    config = ctypes.create_string_buffer(CONFIG_BYTES)
    u64.from_buffer(config, 0).value = CONFIG_BYTES
    ctypes.c_uint32.from_buffer(config, 8).value = 0xF0F0F0F0
    ctypes.c_uint32.from_buffer(config, 24).value = buffer_mib
    ctypes.c_int32.from_buffer(config, 316).value = timeout_s
    ctypes.memmove(ctypes.addressof(config) + 2098, buffer_name, len(buffer_name))
    return config


def make(ranks: int = RANKS, config: ctypes.Array | None = None) -> list[ctypes.c_void_p]:
    """A communicator of all threads; its handle on each rank."""
    root = ctypes.create_string_buffer(ROOT_INFO_BYTES)
    good(library.HcclGetRootInfo(root))
    handles = [ctypes.c_void_p() for _ in range(ranks)]
    config = configuration() if config is None else config
    everywhere(
        lambda rank: good(library.HcclCommInitRootInfoConfig(ranks, root, rank, config, ctypes.byref(handles[rank]))),
        ranks,
    )
    return handles


def destroy(handles: list[ctypes.c_void_p]) -> None:
    """End a communicator."""
    for handle in handles:
        good(library.HcclCommDestroy(handle))


def held(rank: int) -> int:
    """Bytes of a device that the driver counts for the module HCCL."""
    current, peak = u64(), u64()
    driver.virtual_npu_module_memory(rank, MODULE_HCCL, ctypes.byref(current), ctypes.byref(peak))
    return current.value


def doubles(*values: float) -> ctypes.Array:
    """A buffer of float64."""
    return (ctypes.c_double * len(values))(*values)


def counts(*values: int) -> ctypes.Array:
    """A buffer of uint64."""
    return (u64 * len(values))(*values)


def sum_of(handle: ctypes.c_void_p, value: float) -> float:
    """All-reduce one number in place."""
    buffer = doubles(value)
    good(library.HcclAllReduce(buffer, buffer, u64(1), FLOAT64, SUM, handle, None))
    return buffer[0]


def what_is_known() -> None:
    """Rank, size, name, abilities."""
    handles = make()
    for rank, handle in enumerate(handles):
        number = ctypes.c_uint32()
        good(library.HcclGetRankId(handle, ctypes.byref(number)))
        assert number.value == rank
        good(library.HcclGetRankSize(handle, ctypes.byref(number)))
        assert number.value == RANKS
        name = ctypes.create_string_buffer(128)
        good(library.HcclGetCommName(handle, name))
        assert name.value.startswith(b"hccl_")
    assert library.HcclGetCommConfigCapability() == 12
    assert library.HcclGetErrorString(9) == b"timeout"
    destroy(handles)


def device_memory() -> None:
    """Two buffers per communicator and rank, until it is destroyed; one pair where buffers share a name."""
    assert held(0) == 0
    handles = make(config=configuration(buffer_mib=7))
    assert [held(rank) for rank in range(RANKS)] == [14 * MIB] * RANKS
    more = make(config=configuration(buffer_mib=5, buffer_name=b"shared"))
    most = make(config=configuration(buffer_mib=5, buffer_name=b"shared"))
    assert held(0) == 24 * MIB
    destroy(more)
    assert held(0) == 24 * MIB
    destroy(most)
    destroy(handles)
    assert held(0) == 0
    block = ctypes.c_void_p()
    good(runtime.aclrtSetDevice(0))
    good(lower.HcommMemAlloc(ctypes.byref(block), u64(3 * MIB)))
    assert held(0) == 3 * MIB
    good(lower.HcommMemFree(block))


def sub_communicators() -> None:
    """Ranks 2 and 0 of three, in this order; the third says that it takes no part."""
    handles = make()
    members = (ctypes.c_uint32 * 2)(2, 0)
    config = configuration()

    def use(rank: int) -> None:
        sub = ctypes.c_void_p()
        create = library.HcclCreateSubCommConfig
        parent = ctypes.byref(handles[rank])
        if rank == 1:
            good(create(parent, 0, None, u64(1), 0, config, ctypes.byref(sub)))
            assert sub.value is None
        else:
            own = list(members).index(rank)
            for _ in range(2):  # the same one again, once it was destroyed
                good(create(parent, 2, members, u64(1), own, config, ctypes.byref(sub)))
                assert sum_of(sub, 10.0**rank) == 101.0
                buffer = doubles(float(rank))
                good(library.HcclBroadcast(buffer, u64(1), FLOAT64, 0, sub, None))
                assert buffer[0] == 2.0
                good(library.HcclBarrier(sub, None))
                good(library.HcclCommDestroy(sub))
        assert sum_of(handles[rank], 1.0) == RANKS

    everywhere(use)
    destroy(handles)


def count_matrix() -> None:
    """HcclAlltoAllVC."""
    handles = make()
    matrix = [[1, 0, 2], [2, 1, 0], [0, 3, 1]]

    def use(rank: int) -> None:
        sent = doubles(*(100.0 * rank + number for number in range(sum(matrix[rank]))))
        taken = [row[rank] for row in matrix]
        received = doubles(*([0.0] * sum(taken)))
        flat = counts(*(number for row in matrix for number in row))
        good(library.HcclAlltoAllVC(sent, flat, FLOAT64, received, FLOAT64, handles[rank], None))
        expected = []
        for source, row in enumerate(matrix):
            begin = sum(row[:rank])
            expected += [100.0 * source + begin + number for number in range(row[rank])]
        assert list(received) == expected

    everywhere(use)
    destroy(handles)


def element_types() -> None:
    """Every type of numbers that C has, with each reduction; integers wrap, as on the device."""
    handles = make(2)
    kinds = {
        0: ctypes.c_int8, 1: ctypes.c_int16, 2: ctypes.c_int32, 5: ctypes.c_int64, 6: ctypes.c_uint64,
        7: ctypes.c_uint8, 8: ctypes.c_uint16, 9: ctypes.c_uint32, FLOAT32: ctypes.c_float, FLOAT64: ctypes.c_double,
    }  # fmt: skip
    reductions = (lambda a, b: a + b, lambda a, b: a * b, max, min)
    values = [(3, 5), (-7, 2), (100, 100), (-100, -3)]

    def use(rank: int) -> None:
        for number, kind in kinds.items():
            for reduction, function in enumerate(reductions):
                data = (kind * len(values))(*(pair[rank] for pair in values))
                good(library.HcclAllReduce(data, data, u64(len(values)), number, reduction, handles[rank], None))
                expected = [kind(function(kind(a).value, kind(b).value)).value for a, b in values]
                assert list(data) == expected, (number, reduction, list(data), expected)

    everywhere(use, 2)
    destroy(handles)


def many_ranks() -> None:
    """More ranks than devices are usual on one machine, each with a small part of the shared memory for pieces."""
    ranks = 40
    handles = make(ranks, configuration(buffer_mib=1))

    def use(rank: int) -> None:
        assert sum_of(handles[rank], float(rank)) == sum(range(ranks))
        length = 5000  # of 8 bytes for each rank: more than a piece holds
        sent = doubles(*(float(rank * 100 + target) for target in range(ranks) for _ in range(length)))
        received = doubles(*([0.0] * (ranks * length)))
        count = u64(length)
        good(library.HcclAlltoAll(sent, count, FLOAT64, received, count, FLOAT64, handles[rank], None))
        for source in range(ranks):
            assert received[source * length] == received[(source + 1) * length - 1] == source * 100 + rank

    everywhere(use, ranks)
    destroy(handles)


def uneven_reductions() -> None:
    """HcclReduceScatterV and HcclAllGatherV, in place and with gaps."""
    handles = make()

    def use(rank: int) -> None:
        data = doubles(*(float(number + rank) for number in range(8)))
        sizes, places = counts(1, 2, 3), counts(0, 2, 5)  # elements 1 and 4 belong to nobody
        result = doubles(*([0.0] * (rank + 1)))
        call = library.HcclReduceScatterV
        good(call(data, sizes, places, result, u64(rank + 1), FLOAT64, SUM, handles[rank], None))
        begin = list(places)[rank]
        assert list(result) == [RANKS * (begin + number) + 3.0 for number in range(rank + 1)]
        gathered = doubles(*([-1.0] * 8))
        call = library.HcclAllGatherV
        good(call(result, u64(rank + 1), gathered, sizes, places, FLOAT64, handles[rank], None))
        assert list(gathered) == [3.0, -1.0, 9.0, 12.0, -1.0, 18.0, 21.0, 24.0]

    everywhere(use)
    destroy(handles)


def groups_of_messages() -> None:
    """Large messages around a triangle of communicators of two, in the order that would block one after the other."""
    pairs = ((0, 1), (1, 2), (0, 2))
    roots = {pair: ctypes.create_string_buffer(ROOT_INFO_BYTES) for pair in pairs}
    for root in roots.values():
        good(library.HcclGetRootInfo(root))
    length = 10 * MIB  # of 8 bytes, more than a ring holds

    def use(rank: int) -> None:
        handles = {}
        for pair, root in roots.items():
            if rank in pair:
                handles[pair] = ctypes.c_void_p()
                good(library.HcclCommInitRootInfo(2, root, pair.index(rank), ctypes.byref(handles[pair])))
        following, preceding = (rank + 1) % RANKS, (rank - 1) % RANKS
        to, source = tuple(sorted((rank, following))), tuple(sorted((rank, preceding)))
        sent = (ctypes.c_double * length)()
        sent[0] = sent[length - 1] = rank + 1.0
        received = (ctypes.c_double * length)()
        good(lower.HcclGroupStart())
        good(library.HcclSend(sent, u64(length), FLOAT64, to.index(following), handles[to], None))
        good(library.HcclRecv(received, u64(length), FLOAT64, source.index(preceding), handles[source], None))
        good(lower.HcclGroupEnd())
        assert received[0] == received[length - 1] == preceding + 1.0
        for handle in handles.values():
            good(library.HcclCommDestroy(handle))

    everywhere(use)


def wrong_arguments() -> None:
    """A wrong argument is an error of the call, and the communicator stays usable."""
    handles = make(1)
    buffer = doubles(1.0)

    def refused(code: int, part: str, status: int) -> None:
        assert status == code, status
        text = runtime.aclGetRecentErrMsg().decode()
        assert part in text, text

    one = u64(1)
    refused(5, "99 is not a data type", library.HcclAllReduce(buffer, buffer, one, 99, SUM, handles[0], None))
    refused(5, "of int128 elements", library.HcclAllReduce(buffer, buffer, one, INT128, SUM, handles[0], None))
    refused(5, "no reduction (9)", library.HcclAllReduce(buffer, buffer, one, FLOAT64, 9, handles[0], None))
    refused(1, "root 4 of 1 ranks", library.HcclBroadcast(buffer, one, FLOAT64, 4, handles[0], None))
    refused(1, "rank 7 of 1", library.HcclSend(buffer, one, FLOAT64, 7, handles[0], None))
    refused(2, "(nil) is not a communicator", library.HcclBarrier(None, None))
    refused(1, "is not a communicator", library.HcclBarrier(ctypes.c_void_p(0x1234), None))
    refused(1, "has begun no group", lower.HcclGroupEnd())
    assert sum_of(handles[0], 4.0) == 4.0
    destroy(handles)
    refused(1, "is not a communicator", library.HcclBarrier(handles[0], None))
    not_root = ctypes.create_string_buffer(ROOT_INFO_BYTES)
    refused(1, "not made by HcclGetRootInfo", library.HcclCommInitRootInfo(1, not_root, 0, ctypes.byref(handles[0])))


def disagreement() -> None:
    """Ranks that expect different things of each other all get an error that says so."""
    handles = make()

    def different_counts(rank: int) -> None:
        buffer = doubles(0.0, 0.0)
        good(library.HcclAllReduce(buffer, buffer, u64(1 + rank // 2), FLOAT64, SUM, handles[rank], None))

    for outcome in on_all_ranks(different_counts):
        assert "of 1 float64, sum" in str(outcome), outcome
        assert "of 2 float64, sum" in str(outcome), outcome
    destroy(handles)

    handles = make(2)

    def different_sizes(rank: int) -> None:
        buffer = doubles(0.0, 0.0)
        if rank == 0:
            good(library.HcclSend(buffer, u64(2), FLOAT64, 1, handles[0], None))
        else:
            good(library.HcclRecv(buffer, u64(1), FLOAT64, 0, handles[1], None))

    outcome = on_all_ranks(different_sizes, 2)[1]
    assert "rank 0 sends 2 float64, this rank expects 1 float64" in str(outcome), outcome
    destroy(handles)


def waiting_ends() -> None:
    """A call ends with an error when its rank destroys the communicator, a peer does, or the time is over."""
    handles = make(2)
    finished = threading.Event()
    outcomes: list[object] = []

    def wait() -> None:
        status = library.HcclBarrier(handles[0], None)
        outcomes.append((status, runtime.aclGetRecentErrMsg().decode()))
        finished.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert not finished.wait(0.2)
    good(library.HcclCommDestroy(handles[0]))
    thread.join(10)
    assert "destroyed by another thread" in outcomes[0][1], outcomes
    assert library.HcclBarrier(handles[1], None) == 21
    assert "rank 0 gave up" in runtime.aclGetRecentErrMsg().decode()
    good(library.HcclCommDestroy(handles[1]))

    handles = make(2)
    good(library.HcclCommDestroy(handles[1]))
    assert library.HcclBarrier(handles[0], None) == 21
    assert "rank 1 has left the communicator" in runtime.aclGetRecentErrMsg().decode()
    good(library.HcclCommDestroy(handles[0]))

    handles = make(2, configuration(timeout_s=1))
    buffer = doubles(0.0)
    processor_time = time.process_time()
    assert library.HcclRecv(buffer, u64(1), FLOAT64, 1, handles[0], None) == 9
    assert time.process_time() - processor_time < 0.3  # it sleeps
    assert "rank 1 did not come within 1 s" in runtime.aclGetRecentErrMsg().decode()
    destroy(handles)


def meetings() -> None:
    """A communicator whose ranks do not agree on their number is not made, and all ranks learn why."""
    root = ctypes.create_string_buffer(ROOT_INFO_BYTES)
    good(library.HcclGetRootInfo(root))
    handle = ctypes.c_void_p()

    def different(rank: int) -> None:
        handle = ctypes.c_void_p()
        good(library.HcclCommInitRootInfo(2 + rank, root, rank, ctypes.byref(handle)))

    for outcome in on_all_ranks(different, 2):
        assert "expects 3 ranks" in str(outcome), outcome
    # The root info is used up.
    assert library.HcclCommInitRootInfo(2, root, 1, ctypes.byref(handle)) == 11
    assert "the root rank has ended, or its communicator exists already" in runtime.aclGetRecentErrMsg().decode()

    os.environ["HCCL_CONNECT_TIMEOUT"] = "1"
    good(library.HcclGetRootInfo(root))
    assert library.HcclCommInitRootInfo(3, root, 1, ctypes.byref(handle)) == 11
    assert "no sign of rank 0, 2 (HCCL_CONNECT_TIMEOUT)" in runtime.aclGetRecentErrMsg().decode()
    os.environ["HCCL_CONNECT_TIMEOUT"] = "soon"
    assert library.HcclCommInitRootInfo(3, root, 1, ctypes.byref(handle)) == 1
    assert "HCCL_CONNECT_TIMEOUT: 'soon' is not accepted" in runtime.aclGetRecentErrMsg().decode()
    del os.environ["HCCL_CONNECT_TIMEOUT"]


CHECKS = (
    what_is_known, device_memory, sub_communicators, element_types, many_ranks, count_matrix, uneven_reductions, groups_of_messages,
    wrong_arguments, disagreement, waiting_ends, meetings,
)  # fmt: skip


def main() -> None:
    """Run all checks."""
    good(runtime.aclInit(None))
    good(runtime.aclrtSetDevice(0))
    for check in CHECKS:
        check()
        print(check.__name__, flush=True)


if __name__ == "__main__":
    main()
