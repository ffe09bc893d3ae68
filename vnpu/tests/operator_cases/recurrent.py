"""Recurrent networks: LSTM, GRU and plain, whole sequences and single steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .case import OperatorCase
from .normalization import precise

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS, BATCH, FEATURES, WIDTH = 5, 3, 4, 6
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def network(kind: str, layers: int = 1, directions: int = 1, *, bias: bool = True) -> Callable[[Any], tuple[Any, ...]]:
    """A batch of sequences, and the parameters of a network in the order of torch."""

    def inputs(generator: Any) -> tuple[Any, ...]:
        rows = GATES[kind] * WIDTH
        parameters = []
        for layer in range(layers):
            features = FEATURES if layer == 0 else WIDTH * directions
            shapes = [(rows, features), (rows, WIDTH)] + ([(rows,), (rows,)] if bias else [])
            for _ in range(directions):
                parameters += [torch.randn(shape, generator=generator) / 2 for shape in shapes]
        return torch.randn(STEPS, BATCH, FEATURES, generator=generator), *parameters

    return inputs


def results(outcome: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
    """The sequence and the last states."""
    sequence, state = outcome
    return (sequence, state) if isinstance(state, torch.Tensor) else (sequence, *state)


def module(kind: str, parameters: tuple[torch.Tensor, ...], device: torch.device, **options: Any) -> Callable[..., Any]:
    """A module of torch.nn that computes with these parameters, so that gradients reach them."""
    layer = getattr(torch.nn, kind)(FEATURES, WIDTH, **options).to(device=device, dtype=parameters[0].dtype)
    names = [name for name, _ in layer.named_parameters()]
    return lambda *inputs: torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), inputs)


def run(kind: str, **options: Any) -> Callable[..., tuple[torch.Tensor, ...]]:
    """One pass in training mode."""
    return lambda x, *parameters: results(module(kind, parameters, x.device, **options)(x))


def run_without_batch(kind: str) -> Callable[..., tuple[torch.Tensor, ...]]:
    """One pass over a single sequence."""
    return lambda x, *parameters: results(module(kind, parameters, x.device)(x[:, 0]))


def run_from_state(kind: str, layers: int, directions: int) -> Callable[..., tuple[torch.Tensor, ...]]:
    """One pass from a given state, which is made of the parameters so that it has a gradient."""

    def call(x: torch.Tensor, *parameters: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows = parameters[1].sin().repeat(layers * directions, 1)[: layers * directions * BATCH]
        start = rows.reshape(layers * directions, BATCH, WIDTH)
        state = (start, start.cos()) if kind == "LSTM" else start
        options = {"num_layers": layers, "bidirectional": directions > 1}
        return results(module(kind, parameters, x.device, **options)(x, state))

    return call


def last_state(kind: str) -> Callable[..., torch.Tensor]:
    """Only the last state, so that the sequence has no gradient."""
    return lambda x, *parameters: results(module(kind, parameters, x.device)(x))[1]


def cell(kind: str) -> Callable[..., Any]:
    """Two single steps."""

    def call(x: torch.Tensor, *parameters: torch.Tensor) -> Any:
        step = module(kind + "Cell", parameters, x.device)
        first = step(x[0])
        return step(x[1], first)

    return call


def packed(**options: Any) -> Callable[..., torch.Tensor]:
    """Sequences of different lengths.

    torch_npu's packing has no correct gradient, so the input has none. The last state in the reverse direction has none
    either, and so it is no result.
    """

    def call(x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        sequences = torch.nn.utils.rnn.pack_padded_sequence(x.detach(), torch.tensor([5, 3, 2]))
        sequence, _ = module("LSTM", parameters, x.device, **options)(sequences)
        return torch.nn.utils.rnn.pad_packed_sequence(sequence)[0]

    return call


def fused_cell(
    input_gates: torch.Tensor,
    hidden_gates: torch.Tensor,
    memory: torch.Tensor,
    input_bias: torch.Tensor,
    hidden_bias: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The part of an LSTM cell after the matrix products, for which the CPU has no operator."""
    if input_gates.device.type != "cpu":
        fused = torch.ops.aten._thnn_fused_lstm_cell
        results = fused(input_gates, hidden_gates, memory, input_bias, hidden_bias)
        return results[0], results[1]
    gates = (input_gates + hidden_gates + input_bias + hidden_bias).chunk(4, 1)
    memory = gates[1].sigmoid() * memory + gates[0].sigmoid() * gates[2].tanh()
    return gates[3].sigmoid() * memory.tanh(), memory


def fused_cell_inputs(generator: Any) -> tuple[torch.Tensor, ...]:
    """Gates, the cell state and biases."""
    rows = GATES["LSTM"] * WIDTH
    shapes = ((BATCH, rows), (BATCH, rows), (BATCH, WIDTH), (rows,), (rows,))
    return tuple(torch.randn(shape, generator=generator) for shape in shapes)


def case(name: str, call: Callable[..., Any], inputs: Callable[[Any], tuple[Any, ...]], **options: Any) -> OperatorCase:
    """A case in float32. Sums over steps add up to a little more than the default tolerance."""
    return OperatorCase(name, call, inputs, types=("float32",), absolute=5e-6, **options)


def half_case(name: str, call: Callable[..., Any], inputs: Callable[[Any], tuple[Any, ...]]) -> OperatorCase:
    """A case in bfloat16.

    The device keeps every step's activations in bfloat16 from the forward to the backward pass. The gradients of the
    biases are sums over all fifteen rows that come from these activations. They take up as many roundings.
    """
    return OperatorCase(name, precise(call), inputs, types=("bfloat16",), absolute=3e-2)


CASES = [
    case("lstm", run("LSTM"), network("LSTM")),
    case("lstm with batch first", run("LSTM", batch_first=True), network("LSTM")),
    case("lstm of one sequence", run_without_batch("LSTM"), network("LSTM")),
    case("lstm from a state", run_from_state("LSTM", 1, 1), network("LSTM")),
    case("lstm last state", last_state("LSTM"), network("LSTM")),
    case("lstm of packed sequences", packed(), network("LSTM")),
    # The next cases go through the older operator interface.
    case("lstm without bias", run("LSTM", bias=False), network("LSTM", bias=False)),
    case(
        "lstm with layers in both directions",
        run("LSTM", num_layers=3, bidirectional=True, batch_first=True),
        network("LSTM", 3, 2),
    ),
    case("lstm with layers in both directions from a state", run_from_state("LSTM", 2, 2), network("LSTM", 2, 2)),
    case(
        "lstm of packed sequences in both directions",
        packed(num_layers=2, bidirectional=True),
        network("LSTM", 2, 2),
    ),
    half_case("lstm in bfloat16", run("LSTM", num_layers=2), network("LSTM", 2)),
    half_case("gru in bfloat16", run("GRU", num_layers=2), network("GRU", 2)),
    case("lstm cell", cell("LSTM"), network("LSTM")),
    case("gru", run("GRU"), network("GRU")),
    case("gru with batch first", run("GRU", batch_first=True), network("GRU")),
    case("gru without bias", run("GRU", bias=False), network("GRU", bias=False)),
    case("gru of one sequence", run_without_batch("GRU"), network("GRU")),
    case("gru with layers in both directions from a state", run_from_state("GRU", 2, 2), network("GRU", 2, 2)),
    case(
        "gru with layers in both directions",
        run("GRU", num_layers=2, bidirectional=True, batch_first=True),
        network("GRU", 2, 2),
    ),
    case("gru last state", last_state("GRU"), network("GRU")),
    case("rnn", run("RNN"), network("RNN")),
    case("rnn with relu", run("RNN", nonlinearity="relu"), network("RNN")),
    case("rnn with layers in both directions", run_from_state("RNN", 2, 2), network("RNN", 2, 2)),
    case("gru cell", cell("GRU"), network("GRU")),
    case("rnn cell", cell("RNN"), network("RNN")),
    case("fused lstm cell", fused_cell, fused_cell_inputs),
]
