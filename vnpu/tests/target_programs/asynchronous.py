"""The asynchronous mode: streams run behind the host, so what a program forgets to wait for is not there yet."""

from __future__ import annotations

import time

import torch

SIZE = 1 << 20


def hold(milliseconds: int) -> None:
    """Let the current stream stand still for so long."""
    torch.npu._launch_host_func(torch.npu.current_stream(), time.sleep, milliseconds / 1000)


def reused_block(*, recorded: bool) -> tuple[float, bool]:
    """The values that a side stream reads from a tensor freed by the host, and whether its memory was given out."""
    side = torch.npu.Stream()
    source = torch.ones(SIZE, device="npu")
    result = torch.zeros(SIZE, device="npu")
    torch.npu.synchronize()
    with torch.npu.stream(side):
        hold(300)
        result.copy_(source)
    if recorded:
        source.record_stream(side)
    address = source.data_ptr()
    del source
    other = torch.full((SIZE,), 7.0, device="npu")
    is_reused = other.data_ptr() == address
    torch.npu.synchronize()
    assert bool((other == 7).all())
    return result.mean().item(), is_reused


def record_stream() -> None:
    """A block that another stream still reads is overwritten, unless the allocator knows of that stream."""
    assert reused_block(recorded=False) == (7.0, True)
    assert reused_block(recorded=True) == (1.0, False)


def host_is_ahead() -> None:
    """Putting work on a stream takes no time; events and queries say where the stream is."""
    torch.zeros(1, device="npu")
    torch.npu.synchronize()
    begin, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    started = time.monotonic()
    begin.record()
    hold(300)
    end.record()
    assert not end.query()
    assert not torch.npu.current_stream().query()
    ahead = time.monotonic() - started
    end.synchronize()
    assert end.query()
    assert time.monotonic() - started >= 0.3 > ahead
    torch.npu.synchronize()
    assert begin.elapsed_time(end) >= 300


def streams_wait() -> None:
    """A stream that waits for another one sees what that has computed; one that does not, does not."""
    side = torch.npu.Stream()
    values = torch.zeros(8, device="npu")
    torch.npu.synchronize()
    with torch.npu.stream(side):
        hold(200)
        values.fill_(3)
    early = values.clone()
    torch.npu.current_stream().wait_stream(side)
    late = values.clone()
    torch.npu.synchronize()
    assert early.sum().item() == 0
    assert late.sum().item() == 24


def training() -> None:
    """A training has the numbers that it has on the CPU."""
    models = [torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.Linear(64, 4)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    models[1].npu()
    optimizers = [torch.optim.AdamW(model.parameters(), lr=1e-2) for model in models]
    for _ in range(5):
        data = torch.randn(32, 16)
        losses = []
        for model, optimizer in zip(models, optimizers, strict=True):
            optimizer.zero_grad()
            loss = model(data.to(next(model.parameters()).device)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert abs(losses[0] - losses[1]) < 1e-4, losses
    positions = torch.nonzero(torch.tensor([0, 3, 0, 4], device="npu"))  # its size is known when it has run
    assert positions.flatten().tolist() == [1, 3]


def graphs() -> None:
    """A replay is behind the host as well."""
    x = torch.ones(4, device="npu")
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        hold(200)
        result = x * 2
    started = time.monotonic()
    graph.replay()
    assert time.monotonic() - started < 0.2
    assert result.sum().item() == 8


def errors() -> None:
    """An error that only the data shows is raised where the program waits, and the device is lost."""
    table = torch.arange(4.0, device="npu")
    torch.npu.synchronize()
    hold(50)
    wrong = table[torch.tensor([99], device="npu")]  # does not raise
    try:
        torch.npu.synchronize()
    except RuntimeError as error:
        assert "99" in str(error), error  # noqa: PT017
    else:
        raise AssertionError("nothing was raised")
    del wrong


if __name__ == "__main__":
    for check in (record_stream, host_is_ahead, streams_wait, training, graphs, errors):
        check()
        print(check.__name__, "ok", flush=True)
