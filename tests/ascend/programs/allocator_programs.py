"""Programs of allocations for the caching allocator: random ones, and patterns of real jobs, each a generator of steps.

Those with layers are real training and inference of torch; no operator has to compute for them. The others allocate only.
They run on an NPU where torch_npu can be imported, else on a CUDA device.
"""

from __future__ import annotations

import contextlib
import importlib.util
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    Steps: TypeAlias = Iterator[None]

KIND: Final = "npu" if importlib.util.find_spec("torch_npu") else "cuda"
"""The kind of the device. It does not depend on what torch says of CUDA: older versions of torch_npu run with a CUDA
build. Besides, a process that has asked for a GPU cannot be forked."""
if KIND == "npu":
    import torch_npu  # noqa: F401 - makes the device npu
accelerator: Final = getattr(torch, KIND)
MIB: Final = 1 << 20


def block(size: int) -> torch.Tensor:
    """Allocate bytes."""
    return torch.empty(size, dtype=torch.uint8, device=KIND)


def random_sizes(chance: random.Random, scales: tuple[int, ...], steps: int, most: int) -> Steps:
    """Blocks of random sizes and lifetimes; sometimes the cache is emptied."""
    alive: list[torch.Tensor] = []
    for _ in range(steps):
        choice = chance.random()
        if choice < 0.01:
            accelerator.empty_cache()
        elif (choice < 0.55 and sum(map(len, alive)) < most) or not alive:
            alive.append(block(chance.randrange(1, chance.choice(scales))))
        else:
            alive.pop(chance.randrange(len(alive)))
        yield


def small(chance: random.Random) -> Steps:
    """Up to 1 MiB."""
    return random_sizes(chance, (600, 20_000, MIB), 2500, 256 * MIB)


def large(chance: random.Random) -> Steps:
    """Up to 64 MiB."""
    return random_sizes(chance, (3 * MIB, 12 * MIB, 64 * MIB), 1500, 600 * MIB)


def mixed(chance: random.Random) -> Steps:
    """All sizes."""
    return random_sizes(chance, (2_000, 600_000, 3 * MIB, 24 * MIB), 2500, 500 * MIB)


def training(chance: random.Random) -> Steps:
    """Steps with activations that are freed in the reverse order, of changing sizes."""
    weights = [block(size * MIB) for size in (1, 3, 7, 12, 30)]
    for _ in range(40):
        length = chance.randrange(1, 9)
        activations = []
        for layer in range(12):
            activations.append(block(length * (layer % 3 + 1) * 600_000))
            yield
            scratch = block(length * 900_000)
            yield
            del scratch
            yield
        while activations:
            gradient = block(len(activations.pop()))
            yield
            del gradient
            yield
    weights.clear()
    yield


def serving(chance: random.Random) -> Steps:
    """Caches that grow by being copied, as requests get longer."""
    requests: list[torch.Tensor] = []
    for _ in range(1500):
        if chance.random() < 0.1 or not requests:
            requests.append(block(256 * 1024))
        else:
            index = chance.randrange(len(requests))
            if chance.random() < 0.12 or len(requests[index]) > 12 * MIB:
                requests.pop(index)
            else:
                requests[index] = block(len(requests[index]) + 128 * 1024)
        yield


def streams(chance: random.Random) -> Steps:
    """Several streams that use each other's blocks."""
    several = [accelerator.Stream() for _ in range(3)]
    alive: list[torch.Tensor] = []
    for _ in range(2000):
        choice = chance.random()
        if choice < 0.01:
            accelerator.empty_cache()
        elif choice < 0.03:
            accelerator.synchronize()
        elif choice < 0.55 or not alive:
            with accelerator.stream(chance.choice(several)):
                alive.append(block(chance.randrange(1, chance.choice((2_000, 600_000, 3 * MIB, 24 * MIB)))))
        else:
            tensor = alive.pop(chance.randrange(len(alive)))
            if chance.random() < 0.4:
                tensor.record_stream(chance.choice(several))
            del tensor
        yield


def full(chance: random.Random) -> Steps:
    """A device that is nearly full: cached blocks are released to go on, and some allocations fail."""
    alive: list[torch.Tensor] = []
    for _ in range(1200):
        if chance.random() < 0.56 or not alive:
            with contextlib.suppress(torch.OutOfMemoryError):
                alive.append(block(chance.randrange(1, chance.choice((600_000, 12 * MIB, 90 * MIB)))))
        else:
            alive.pop(chance.randrange(len(alive)))
        yield


def longer(chance: random.Random) -> Steps:
    """Steps that need a little more each time, and each leaves a block behind in what they had."""
    left: list[torch.Tensor] = []
    for step in range(60):
        activations = []
        for layer in range(12):
            activations.append(block((20 + step * 2) * 300_000 + layer % 3 * 1_000_000))
            yield
        left.append(block(1_000_000 + chance.randrange(1_000_000)))
        yield
        while activations:
            activations.pop()
            yield


def planned(chance: random.Random) -> Steps:
    """Powers of two and their neighbours: what rounding is about."""
    alive: list[torch.Tensor] = []
    for _ in range(1500):
        if chance.random() < 0.55 or not alive:
            alive.append(block(max((1 << chance.randrange(6, 26)) + chance.choice((-33, -32, -31, 0, 1, 511)), 1)))
        else:
            alive.pop(chance.randrange(len(alive)))
        yield


def layers(width: int, count: int) -> nn.Sequential:
    """A network on the device."""
    return nn.Sequential(
        *(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(count)
        )
    ).to(KIND)


def batch(chance: random.Random, width: int, tokens: int = 512) -> torch.Tensor:
    """An input of a length of its own."""
    return torch.empty(4, chance.randrange(tokens // 8, tokens), width, device=KIND)


def accumulating(chance: random.Random) -> Steps:
    """Gradients of several small batches before each step of the optimizer."""
    network = layers(512, 6)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    for _ in range(6):
        for _ in range(4):
            loss = network(batch(chance, 512)).square().mean()
            yield
            loss.backward()
            yield
        optimizer.step()
        optimizer.zero_grad()
        yield


def checkpointing(chance: random.Random) -> Steps:
    """Activations of a layer are computed again when its gradient needs them."""
    network = layers(512, 8)
    for _ in range(12):
        hidden = batch(chance, 512, 1024).requires_grad_()
        for layer in network:
            hidden = checkpoint(layer, hidden, use_reentrant=False)
            yield
        hidden.square().mean().backward()
        yield
        network.zero_grad()
        del hidden
        yield


def paged(chance: random.Random) -> Steps:
    """A cache of keys and values in pages of sixteen tokens; what a token needs grows with the requests that run."""
    requests: list[list[torch.Tensor]] = []
    for _ in range(500):
        if chance.random() < 0.15 and len(requests) < 24:
            requests.append([block(768 * 1024) for _ in range(chance.randrange(1, 12))])
            yield
        hidden = [block(max(len(requests), 1) * 300_000) for _ in range(3)]
        yield
        del hidden
        for pages in requests:
            if chance.random() < 1 / 16:
                pages.append(block(768 * 1024))
                yield
        requests = [pages for pages in requests if chance.random() > 0.01]
        yield


def appending(chance: random.Random) -> Steps:
    """A cache of keys and values for each layer, which grows by concatenation with each token."""
    for _ in range(3):
        length = chance.randrange(16, 256)
        caches = [torch.empty(4, length, 1024, device=KIND, dtype=torch.float16) for _ in range(8)]
        yield
        for _ in range(40):
            for number, cache in enumerate(caches):
                token = torch.empty(4, 1, 1024, device=KIND, dtype=torch.float16)
                caches[number] = torch.cat([cache, token], dim=1)
                yield
        del caches, cache


def adapters(chance: random.Random) -> Steps:
    """A frozen network with small trained matrices beside it."""
    network = layers(768, 4).requires_grad_(requires_grad=False)
    down = nn.ParameterList([nn.Parameter(torch.empty(768, 8, device=KIND)) for _ in network])
    up = nn.ParameterList([nn.Parameter(torch.empty(8, 768, device=KIND)) for _ in network])
    optimizer = torch.optim.AdamW([*down, *up])
    for _ in range(20):
        hidden = batch(chance, 768)
        for layer, first, second in zip(network, down, up, strict=True):
            hidden = layer(hidden) + hidden @ first @ second
            yield
        hidden.square().mean().backward()
        yield
        optimizer.step()
        optimizer.zero_grad()
        yield


def evaluating(chance: random.Random) -> Steps:
    """Between steps of training a larger batch without gradients, whose results are kept and joined."""
    network = layers(512, 4)
    optimizer = torch.optim.AdamW(network.parameters())
    for step in range(15):
        network(batch(chance, 512)).square().mean().backward()
        yield
        optimizer.step()
        optimizer.zero_grad()
        yield
        if step % 5 == 4:
            found = []
            with torch.no_grad():
                for _ in range(6):
                    found.append(network(batch(chance, 512, 1500)).flatten(0, 1))
                    yield
                torch.cat(found)
            yield


def prefetching(chance: random.Random) -> Steps:
    """The next batch is copied on a stream of its own while this one is used."""
    side = accelerator.Stream()
    network = layers(256, 3)

    def fetched() -> torch.Tensor:
        with accelerator.stream(side):
            return torch.empty(chance.randrange(1, 12) * 64, 1024, 256, dtype=torch.float16, device=KIND)

    following = fetched()
    for _ in range(40):
        accelerator.current_stream().wait_stream(side)
        now = following
        now.record_stream(accelerator.current_stream())
        following = fetched()
        yield
        network(now[:64].float().mean(0)).square().mean().backward()
        network.zero_grad()
        del now
        yield


def emptying(chance: random.Random) -> Steps:
    """The cache is emptied after each step."""
    network = layers(512, 4)
    optimizer = torch.optim.AdamW(network.parameters())
    kept = []
    for _ in range(25):
        network(batch(chance, 512)).square().mean().backward()
        yield
        optimizer.step()
        optimizer.zero_grad()
        kept.append(block(chance.randrange(1, 3 * MIB)))
        yield
        accelerator.empty_cache()
        yield


def optimizing(chance: random.Random) -> Steps:
    """The optimizer makes its state when it is first used, among what the first steps left; later there is an average of weights."""
    network = layers(640, 5)
    optimizer = torch.optim.Adam(network.parameters())
    average: list[torch.Tensor] = []
    for step in range(20):
        network(batch(chance, 640)).square().mean().backward()
        yield
        if step >= 3:
            nn.utils.clip_grad_norm_(network.parameters(), 1.0, error_if_nonfinite=False)
            optimizer.step()
        optimizer.zero_grad(set_to_none=step % 4 != 0)
        yield
        if step == 8:
            average = [parameter.detach().clone() for parameter in network.parameters()]
        yield
        for mean, parameter in zip(average, network.parameters(), strict=False):
            mean.lerp_(parameter.detach(), 0.1)
        yield


def embeddings(chance: random.Random) -> Steps:
    """Tables of very different sizes, with a gradient as large as the table."""
    tables = nn.ModuleList([nn.Embedding(rows, 64) for rows in (200, 3_000, 40_000, 250_000)]).to(KIND)
    optimizer = torch.optim.SGD(tables.parameters(), lr=0.1)
    for _ in range(25):
        count = chance.randrange(100, 20_000)
        rows = [table(torch.zeros(count, dtype=torch.int64, device=KIND)) for table in tables]
        yield
        torch.cat(rows, dim=1).square().mean().backward()
        del rows
        yield
        optimizer.step()
        optimizer.zero_grad()
        yield


def pools(chance: random.Random) -> Steps:
    """Private pools of memory, as captured graphs have; some are given up while the common one goes on."""
    alive: list[torch.Tensor] = []
    held: list[tuple[Any, list[torch.Tensor]]] = []
    for _ in range(60):
        pool = accelerator.MemPool()
        inside: list[torch.Tensor] = []
        with accelerator.use_mem_pool(pool):
            for _ in range(chance.randrange(2, 12)):
                inside.append(block(chance.randrange(1, chance.choice((600_000, 6 * MIB)))))
                yield
                if chance.random() < 0.4:
                    inside.pop(chance.randrange(len(inside)))
                    yield
        held.append((pool, inside))
        for _ in range(chance.randrange(1, 8)):
            alive.append(block(chance.randrange(1, chance.choice((600_000, 6 * MIB)))))
            yield
        del alive[: -chance.randrange(1, 12)], pool, inside
        yield
        if len(held) > 4:
            held.pop(chance.randrange(len(held)))
            yield
            if chance.random() < 0.5:
                accelerator.empty_cache()
                yield


def threads(chance: random.Random) -> Steps:
    """Two threads, each with a stream of its own; what one has allocated the other one may free."""
    alive: list[torch.Tensor] = []

    def allocated(stream: torch.Stream, size: int) -> torch.Tensor:
        with accelerator.stream(stream):
            return block(size)

    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        workers = [(first, accelerator.Stream()), (second, accelerator.Stream())]
        for _ in range(1500):
            worker, stream = chance.choice(workers)
            if chance.random() < 0.55 or not alive:
                size = chance.randrange(1, chance.choice((2_000, 600_000, 3 * MIB, 16 * MIB)))
                alive.append(worker.submit(allocated, stream, size).result())
            else:
                worker.submit(alive.pop, chance.randrange(len(alive))).result()
            yield


def retrying(chance: random.Random) -> Steps:
    """A batch that is too large is tried again with half of it, after the cache was emptied."""
    kept: list[torch.Tensor] = []
    for _ in range(60):
        size = chance.randrange(4, 48)
        while size:
            activations: list[torch.Tensor] = []
            try:
                for layer in range(12):
                    activations.append(block(size * (2 + layer % 3) * 700_000))
                    yield
                break
            except torch.OutOfMemoryError:
                size //= 2
            activations.clear()
            accelerator.empty_cache()
            yield
        kept.append(block(chance.randrange(1, 2 * MIB)))
        while activations:
            activations.pop()
            yield


PROGRAMS: Final[dict[str, Callable[[random.Random], Steps]]] = {
    program.__name__: program
    for program in (
        small,
        large,
        mixed,
        training,
        serving,
        streams,
        full,
        longer,
        planned,
        accumulating,
        checkpointing,
        paged,
        appending,
        adapters,
        evaluating,
        prefetching,
        emptying,
        optimizing,
        embeddings,
        pools,
        threads,
        retrying,
    )
}
