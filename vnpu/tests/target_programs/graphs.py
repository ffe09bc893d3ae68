"""NPU graphs through torch_npu: what is captured does not run, and each replay computes what the program would."""

from __future__ import annotations

import sys

import torch

COMPUTES = sys.argv[1:] != ["none"]


def same(device: torch.Tensor, expected: torch.Tensor) -> None:
    """Values are compared where they are computed."""
    assert device.shape == expected.shape
    if COMPUTES:
        torch.testing.assert_close(device.cpu(), expected)


def replays() -> None:
    """On the same addresses, from what lies there then; nothing happens while it is captured."""
    x = torch.ones(4, device="npu")
    graph = torch.npu.NPUGraph()
    result = torch.zeros(4, device="npu")
    with torch.npu.graph(graph):
        result.copy_(x * 2 + 1)
    same(result, torch.zeros(4))
    for value in (1.0, 5.0, -3.0):
        x.fill_(value)
        graph.replay()
        same(result, torch.full((4,), 2 * value + 1))


def streams() -> None:
    """A stream that waits for the captured one is captured too."""
    x = torch.randn(8, 8, device="npu")
    side = torch.npu.Stream()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        captured = torch.npu.current_stream()
        side.wait_stream(captured)
        with torch.npu.stream(side):
            squared = x @ x
        doubled = x + x
        captured.wait_stream(side)
        result = squared - doubled
    for _ in range(2):
        x.copy_(torch.randn(8, 8))
        graph.replay()
        same(result, x.cpu() @ x.cpu() - 2 * x.cpu())


def private_pool() -> None:
    """The memory of a graph lies in a pool of its own, and stays there until the graph goes."""
    torch.npu.empty_cache()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        kept = torch.zeros(3 << 20, dtype=torch.uint8, device="npu") + 1
    pools = {tuple(segment["segment_pool_id"]) for segment in torch.npu.memory_snapshot()}
    assert tuple(graph.pool()) in pools, pools
    assert any(pool != (0, 0) for pool in pools)
    del kept, graph
    torch.npu.empty_cache()
    assert {tuple(segment["segment_pool_id"]) for segment in torch.npu.memory_snapshot()} <= {(0, 0)}


def graphed_callables() -> None:
    """Forward and backward as graphs train like the module itself."""
    torch.manual_seed(0)
    control = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    graphed = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).npu()
    graphed.load_state_dict(control.state_dict())
    graphed = torch.npu.make_graphed_callables(graphed, (torch.randn(5, 8, device="npu"),))
    optimizers = [torch.optim.SGD(module.parameters(), lr=0.1) for module in (control, graphed)]
    for _ in range(4):
        data, target = torch.randn(5, 8), torch.randn(5, 4)
        for module, optimizer in zip((control, graphed), optimizers, strict=True):
            device = next(module.parameters()).device
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(module(data.to(device)), target.to(device)).backward()
            optimizer.step()
    for expected, parameter in zip(control.parameters(), graphed.parameters(), strict=True):
        same(parameter.detach(), expected.detach())


def random_numbers() -> None:
    """Each replay draws other numbers."""
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        drawn = torch.rand(1000, device="npu")
    graph.replay()
    first = drawn.clone()
    graph.replay()
    if COMPUTES:
        assert not torch.equal(first.cpu(), drawn.cpu())
        assert 0.4 < drawn.mean().item() < 0.6


def updated_tasks() -> None:
    """A group of tasks waits in a replay that has begun, until an update says with which arguments it runs."""
    x = torch.tensor([1.0, 2.0], device="npu")
    result = torch.zeros(2, device="npu")
    graph = torch.npu.NPUGraph()
    event = torch.npu.ExternalEvent()
    updates = torch.npu.Stream()
    with torch.npu.graph(graph):
        stream = torch.npu.current_stream()
        event.wait(stream)
        event.reset(stream)
        torch.npu.graph_task_group_begin(stream)
        torch.add(x, x, alpha=1, out=result)
        handle = torch.npu.graph_task_group_end(stream)
        behind = result * 10
    for alpha in (3, 4):
        graph.replay()
        with torch.npu.stream(updates):
            torch.npu.graph_task_update_begin(updates, handle)
            torch.add(x, x, alpha=alpha, out=result)
            torch.npu.graph_task_update_end(updates)
            event.record(updates)
        torch.npu.synchronize()
        same(behind, torch.tensor([10.0, 20.0]) * (1 + alpha))


def refused() -> None:
    """Waiting for what is captured is an error, and the device is as before."""
    x = torch.ones(4, device="npu")
    graph = torch.npu.NPUGraph()
    try:
        with torch.npu.graph(graph):
            (x + 1).cpu()
    except RuntimeError as error:
        assert "10702" in str(error) or "10703" in str(error) or "507903" in str(error), error  # noqa: PT017
    else:
        raise AssertionError("nothing was raised")
    replays()


if __name__ == "__main__":
    for check in (replays, streams, private_pool, graphed_callables, random_numbers, updated_tasks, refused):
        check()
        print(check.__name__, "ok", flush=True)
