"""Every collective of torch.distributed with the backend hccl, on small values whose results are easy to say.

One process per rank; prints one line of JSON per check. A check that fails may leave the ranks at different calls, so
the first failure ends the program.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch_npu

RANK = int(os.environ["RANK"])
SIZE = int(os.environ["WORLD_SIZE"])
EVERYBODY = range(SIZE)
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
INTEGERS = (torch.int8, torch.int32, torch.int64)
MIB = 1 << 20


def own(length: int = 5, dtype: torch.dtype = torch.float32, rank: int = RANK) -> torch.Tensor:
    """The values of a rank, on the CPU: small numbers, exact in every type."""
    return (torch.arange(length) % 3 + rank + 1).to(dtype)


def pattern(length: int, rank: int = RANK) -> torch.Tensor:
    """Many different values, whose sums over a few ranks are exact."""
    return ((torch.arange(length) * 7919 + rank * 104729) % 65536).float()


def equal(result: torch.Tensor, expected: torch.Tensor) -> None:
    """Compare a result on the device with what is expected, to the bit."""
    torch.testing.assert_close(result.cpu(), expected, rtol=0, atol=0)


def reduced(operation: dist.ReduceOp.RedOpType, length: int, dtype: torch.dtype) -> torch.Tensor:
    """The result of a reduction of own() over all ranks."""
    stacked = torch.stack([own(length, dtype, rank) for rank in EVERYBODY])
    if operation == dist.ReduceOp.SUM:
        return stacked.sum(0).to(dtype)
    if operation == dist.ReduceOp.PRODUCT:
        return stacked.prod(0).to(dtype)
    return stacked.amax(0) if operation == dist.ReduceOp.MAX else stacked.amin(0)


def all_reduce() -> None:
    """Each operation on each type."""
    for dtype in FLOATS + INTEGERS:
        for operation in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT):
            tensor = own(dtype=dtype).npu()
            dist.all_reduce(tensor, operation)
            equal(tensor, reduced(operation, 5, dtype))


def all_reduce_average() -> None:
    """The average, which torch_npu makes of a sum."""
    tensor = own().npu()
    dist.all_reduce(tensor, dist.ReduceOp.AVG)
    torch.testing.assert_close(tensor.cpu(), sum(own(rank=rank) for rank in EVERYBODY) / SIZE)


def all_reduce_sizes() -> None:
    """Less than, exactly and more than what goes through the shared memory at once."""
    for length in (1, 4095, 32769, 262144, 262145, 1_000_003):
        tensor = pattern(length).npu()
        dist.all_reduce(tensor)
        equal(tensor, sum(pattern(length, rank) for rank in EVERYBODY))


def all_reduce_rounds_once() -> None:
    """Half types are added up in float: small summands are not lost one by one."""
    for dtype, large, small in ((torch.bfloat16, 256.0, 0.75), (torch.float16, 2048.0, 0.75)):
        value = large if RANK == 0 else small
        tensor = torch.full((3,), value, dtype=dtype).npu()
        dist.all_reduce(tensor)
        exact = large + small * (SIZE - 1)
        equal(tensor, torch.full((3,), exact).to(dtype))


def all_reduce_special_values() -> None:
    """Infinities, what is not a number, and numbers too small to be normal."""
    for dtype in FLOATS:
        tiny = torch.finfo(dtype).smallest_normal / 2
        values = torch.tensor([float("inf"), float("nan"), tiny, -tiny, torch.finfo(dtype).max]).to(dtype)
        tensor = values.npu()
        dist.all_reduce(tensor)
        expected = torch.stack([values.float()] * SIZE).sum(0).to(dtype)
        torch.testing.assert_close(tensor.cpu(), expected, rtol=0, atol=0, equal_nan=True)


def strided_and_empty() -> None:
    """A tensor without elements takes part; one that is not contiguous is copied by the framework."""
    empty = torch.empty(0).npu()
    dist.all_reduce(empty)
    dist.broadcast(empty, 0)
    parts = [torch.empty(2, 3).npu() for _ in EVERYBODY]
    dist.all_gather(parts, own(6).view(2, 3).npu())
    for rank in EVERYBODY:
        equal(parts[rank], own(6, rank=rank).view(2, 3))


def reduce() -> None:
    """The result is on the root."""
    for root in EVERYBODY:
        tensor = own().npu()
        dist.reduce(tensor, root)
        if root == RANK:
            equal(tensor, reduced(dist.ReduceOp.SUM, 5, torch.float32))
    tensor = pattern(700_001).npu()
    dist.reduce(tensor, 0, dist.ReduceOp.MAX)
    if RANK == 0:
        equal(tensor, torch.stack([pattern(700_001, rank) for rank in EVERYBODY]).amax(0))


def broadcast() -> None:
    """From each root, of several types and sizes."""
    for root in EVERYBODY:
        for dtype in (*FLOATS, *INTEGERS, torch.uint8, torch.float64, torch.bool):
            tensor = own(dtype=dtype).npu()
            dist.broadcast(tensor, root)
            equal(tensor, own(dtype=dtype, rank=root))
    tensor = pattern(600_001).npu()
    dist.broadcast(tensor, SIZE - 1)
    equal(tensor, pattern(600_001, SIZE - 1))


def all_gather() -> None:
    """A list of equal tensors, and one tensor."""
    for length in (5, 300_007):
        parts = [torch.empty(length).npu() for _ in EVERYBODY]
        dist.all_gather(parts, pattern(length).npu())
        for rank in EVERYBODY:
            equal(parts[rank], pattern(length, rank))
        whole = torch.empty(SIZE * length).npu()
        dist.all_gather_into_tensor(whole, pattern(length).npu())
        equal(whole, torch.cat([pattern(length, rank) for rank in EVERYBODY]))


def all_gather_uneven() -> None:
    """Tensors of different sizes."""
    parts = [torch.empty(rank + 1).npu() for rank in EVERYBODY]
    dist.all_gather(parts, own(RANK + 1).npu())
    for rank in EVERYBODY:
        equal(parts[rank], own(rank + 1, rank=rank))


def reduce_scatter() -> None:
    """A list of equal tensors, and one tensor."""
    for length in (5, 300_007):
        expected = sum(pattern(SIZE * length, rank) for rank in EVERYBODY).view(SIZE, length)[RANK]
        result = torch.empty(length).npu()
        dist.reduce_scatter(result, list(pattern(SIZE * length).npu().view(SIZE, length).unbind()))
        equal(result, expected)
        result.zero_()
        dist.reduce_scatter_tensor(result, pattern(SIZE * length).npu())
        equal(result, expected)
    for dtype in FLOATS:
        result = torch.empty(2, dtype=dtype).npu()
        dist.reduce_scatter_tensor(result, own(2 * SIZE, dtype).npu(), dist.ReduceOp.AVG)
        exact = torch.stack([own(2 * SIZE, rank=rank) for rank in EVERYBODY]).mean(0).view(SIZE, 2)[RANK]
        torch.testing.assert_close(result.cpu().float(), exact, rtol=1e-2, atol=0)


def uneven_tensors() -> None:
    """The framework's own calls with sizes for each rank."""
    sizes = [rank * 1000 + 3 for rank in EVERYBODY]
    whole = torch.empty(sum(sizes)).npu()
    torch_npu.distributed.all_gather_into_tensor_uneven(whole, pattern(sizes[RANK]).npu(), output_split_sizes=sizes)
    equal(whole, torch.cat([pattern(sizes[rank], rank) for rank in EVERYBODY]))
    result = torch.empty(sizes[RANK]).npu()
    torch_npu.distributed.reduce_scatter_tensor_uneven(result, pattern(sum(sizes)).npu(), input_split_sizes=sizes)
    equal(result, sum(pattern(sum(sizes), rank) for rank in EVERYBODY).split(sizes)[RANK])


def all_to_all() -> None:
    """Lists, one tensor, and one tensor with sizes for each pair of ranks; some of them empty."""
    results = [torch.empty(3).npu() for _ in EVERYBODY]
    dist.all_to_all(results, [own(3).npu() + 10 * target for target in EVERYBODY])
    for source in EVERYBODY:
        equal(results[source], own(3, rank=source) + 10 * RANK)
    for length in (2, 150_001):
        result = torch.empty(SIZE * length).npu()
        dist.all_to_all_single(result, pattern(SIZE * length).npu())
        equal(result, torch.cat([pattern(SIZE * length, source).view(SIZE, length)[RANK] for source in EVERYBODY]))
    for unit in (1, 70_001):
        counts = [[(source + 2 * target) % 3 * unit for target in EVERYBODY] for source in EVERYBODY]
        taken = [counts[source][RANK] for source in EVERYBODY]
        result = torch.empty(sum(taken)).npu()
        dist.all_to_all_single(result, pattern(sum(counts[RANK])).npu(), taken, counts[RANK])
        expected = [pattern(sum(counts[source]), source).split(counts[source])[RANK] for source in EVERYBODY]
        equal(result, torch.cat(expected))


def scatter() -> None:
    """From each root."""
    for root in EVERYBODY:
        result = torch.empty(4).npu()
        dist.scatter(result, [own(4).npu() + 10 * target for target in EVERYBODY] if root == RANK else None, root)
        equal(result, own(4, rank=root) + 10 * RANK)


def gather() -> None:
    """To each root."""
    for root in EVERYBODY:
        results = [torch.empty(4).npu() for _ in EVERYBODY] if root == RANK else None
        dist.gather(own(4).npu(), results, root)
        for source, result in enumerate(results or []):
            equal(result, own(4, rank=source))


def send_and_receive() -> None:
    """Around a ring, small and large; every rank sends first, so nobody may wait for its receiver."""
    following, preceding = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    for length in (1, 5, 100_003, 4_000_037):
        if RANK % 2 == 0:
            dist.send(pattern(length).npu(), following)
        result = torch.empty(length).npu()
        dist.recv(result, preceding)
        equal(result, pattern(length, preceding))
        if RANK % 2 == 1:
            dist.send(pattern(length).npu(), following)


def messages_in_order() -> None:
    """Many messages of growing size go through one after the other, ahead of the receiver, and keep their order."""
    if RANK == 0:
        for number in range(60):
            dist.send(pattern(1000 * number + 1, number).npu(), 1)
    elif RANK == 1:
        for number in range(60):
            result = torch.empty(1000 * number + 1).npu()
            dist.recv(result, 0)
            equal(result, pattern(1000 * number + 1, number))


def asynchronous_messages() -> None:
    """Messages that are waited for later: isend and irecv."""
    following, preceding = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    result = torch.empty(7).npu()
    first = dist.isend(own(7).npu(), following)
    second = dist.irecv(result, preceding)
    first.wait()
    second.wait()
    equal(result, own(7, rank=preceding))


def message_batches() -> None:
    """batch_isend_irecv: each with each, in an order that would block one message after the other."""
    for length in (6, 17_000_003):  # the large ones do not fit into the shared memory at once
        results = [torch.zeros(length).npu() for _ in EVERYBODY]
        operations = []
        for distance in range(1, SIZE):
            source, target = (RANK - distance) % SIZE, (RANK + distance) % SIZE
            operations.append(dist.P2POp(dist.irecv, results[source], source))
            operations.append(dist.P2POp(dist.isend, pattern(length).npu() + target, target))
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        for source in EVERYBODY:
            if source != RANK:
                equal(results[source], pattern(length, source) + RANK)


def barrier() -> None:
    """Several in a row."""
    for _ in range(3):
        dist.barrier()


def asynchronous_collectives() -> None:
    """async_op=True: the work ends, and the result is there."""
    tensors = [own(rank=RANK + number).npu() for number in range(4)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in works:
        work.wait()
    for number, tensor in enumerate(tensors):
        equal(tensor, sum(own(rank=rank + number) for rank in EVERYBODY))
        assert works[number].is_completed()


def coalesced_collectives() -> None:
    """Several tensors in one call, and several calls in one group."""
    tensors = [own(length).npu() for length in (1, 2, 3)]
    dist.all_reduce_coalesced(tensors)
    for length, tensor in enumerate(tensors, 1):
        equal(tensor, sum(own(length, rank=rank) for rank in EVERYBODY))
    wholes = [torch.empty(SIZE * length).npu() for length in (2, 3)]
    with dist._coalescing_manager(device=torch.device("npu")):  # as torch.distributed.fsdp does
        for length, whole in zip((2, 3), wholes, strict=True):
            dist.all_gather_into_tensor(whole, own(length).npu())
    for length, whole in zip((2, 3), wholes, strict=True):
        equal(whole, torch.cat([own(length, rank=rank) for rank in EVERYBODY]))


def coalesced_messages() -> None:
    """Messages in one group."""
    following, preceding = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    result = torch.empty(7).npu()
    with dist._coalescing_manager(device=torch.device("npu"), async_ops=True) as manager:
        dist.isend(own(7).npu(), following)
        dist.irecv(result, preceding)
    manager.wait()
    equal(result, own(7, rank=preceding))


def functional_collectives() -> None:
    """The collectives that return their result, as compiled programs and DTensor use them."""
    from torch.distributed import _functional_collectives as functional

    world = dist.group.WORLD
    equal(functional.all_reduce(own().npu(), "sum", world), sum(own(rank=rank) for rank in EVERYBODY))
    equal(functional.all_gather_tensor(own().npu(), 0, world), torch.cat([own(rank=rank) for rank in EVERYBODY]))
    sizes = [2] * SIZE
    result = functional.all_to_all_single(pattern(2 * SIZE).npu(), sizes, sizes, world)
    equal(result, torch.cat([pattern(2 * SIZE, source).view(SIZE, 2)[RANK] for source in EVERYBODY]))


def distributed_tensors() -> None:
    """A DTensor changes how it is laid out; a small network runs in tensor parallel."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    devices = init_device_mesh("npu", (SIZE,))
    whole = pattern(SIZE * 2 * 5, rank=0).view(SIZE * 2, 5)
    sharded = distribute_tensor(whole.npu(), devices, [Shard(0)])
    equal(sharded.redistribute(devices, [Shard(1)]).full_tensor(), whole)

    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(8, 24), torch.nn.GELU(), torch.nn.Linear(24, 8))
    inputs = torch.randn(4, 8)
    expected = network(inputs).detach()
    parallel = parallelize_module(network.npu(), devices, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    result = parallel(inputs.npu())
    result.sum().backward()
    torch.testing.assert_close(result.detach().cpu(), expected, rtol=1e-5, atol=1e-6)


def objects() -> None:
    """The collectives of Python objects."""
    mine = {"rank": RANK, "text": "x" * (RANK * 100)}
    everything = [{"rank": rank, "text": "x" * (rank * 100)} for rank in EVERYBODY]
    results: list[object] = [None] * SIZE
    dist.all_gather_object(results, mine)
    assert results == everything
    texts = everything if RANK == 0 else [None] * SIZE
    dist.broadcast_object_list(texts, 0)
    assert texts == everything
    results = [None] * SIZE
    dist.gather_object(mine, results if RANK == 0 else None, 0)
    assert RANK != 0 or results == everything
    given: list[object] = [None]
    dist.scatter_object_list(given, everything if RANK == 0 else None, 0)
    assert given == [mine]


def groups() -> None:
    """Groups of some ranks, of one rank, and in another order, used in turn with the whole."""
    alone = [dist.new_group([rank]) for rank in EVERYBODY][RANK]
    pair = dist.new_group([0, SIZE - 1])
    whole = dist.new_group(list(EVERYBODY))
    for _ in range(2):
        tensor = own().npu()
        dist.all_reduce(tensor, group=alone)
        equal(tensor, own())
        dist.all_reduce(tensor, group=whole)
        equal(tensor, sum(own(rank=rank) for rank in EVERYBODY))
        if RANK in {0, SIZE - 1}:
            tensor = own().npu()
            dist.all_reduce(tensor, group=pair)
            equal(tensor, own(rank=0) + own(rank=SIZE - 1))
        tensor = own().npu()
        dist.broadcast(tensor, SIZE - 1)
        equal(tensor, own(rank=SIZE - 1))
    for group in (alone, pair, whole):
        if RANK in dist.get_process_group_ranks(group):
            dist.destroy_process_group(group)


def mesh() -> None:
    """A device mesh makes its groups; a group of it works."""
    from torch.distributed.device_mesh import init_device_mesh

    rows = init_device_mesh("npu", (SIZE, 1), mesh_dim_names=("replicate", "shard"))
    tensor = own().npu()
    dist.all_reduce(tensor, group=rows.get_group("replicate"))
    equal(tensor, sum(own(rank=rank) for rank in EVERYBODY))
    dist.all_reduce(tensor, group=rows.get_group("shard"))
    equal(tensor, sum(own(rank=rank) for rank in EVERYBODY))


def many_calls() -> None:
    """Two thousand collectives in a row, of changing kind."""
    total = torch.zeros(3).npu()
    for number in range(1000):
        tensor = torch.full((3,), float(RANK)).npu()
        dist.all_reduce(tensor)
        dist.broadcast(tensor, number % SIZE)
        total += tensor
    equal(total, torch.full((3,), 1000.0 * sum(EVERYBODY)))


CHECKS: dict[str, Callable[[], None]] = {
    check.__name__: check
    for check in (
        all_reduce, all_reduce_average, all_reduce_sizes, all_reduce_rounds_once, all_reduce_special_values,
        strided_and_empty, reduce, broadcast, all_gather, all_gather_uneven, reduce_scatter, uneven_tensors,
        all_to_all, scatter, gather, send_and_receive, messages_in_order, asynchronous_messages, message_batches,
        barrier, asynchronous_collectives, coalesced_collectives, coalesced_messages,
        functional_collectives, distributed_tensors, objects, groups, mesh, many_calls,
    )
}  # fmt: skip


def error_of(check: Callable[[], None]) -> str | None:
    """Run a check; the traceback of what it raised, if it did."""
    try:
        check()
    except Exception:
        return traceback.format_exc()
    return None


def main() -> int:
    """Run the checks that were named, or all."""
    torch.npu.set_device(RANK)
    dist.init_process_group("hccl")
    for name in sys.argv[1:] or CHECKS:
        error = error_of(CHECKS[name])
        print(json.dumps({"check": name, "error": error}), flush=True)
        if error is not None:
            return 1
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
