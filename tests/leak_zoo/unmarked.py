"""Programs that say nothing of steps: training, inference, servers; leaking or not."""

from __future__ import annotations

import collections
import http.client
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import torch

from . import DEVICE, STEPS

REQUESTS = 20 * STEPS
_answers: dict[int, torch.Tensor] = {}
_KeysAndValues = tuple[torch.Tensor, torch.Tensor]


def _model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to(DEVICE)


def losses_with_graphs() -> None:
    """A trainer whose list of losses keeps their graphs."""

    class LossTrainer:
        def __init__(self) -> None:
            self.model = _model()
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
            self.history: list[torch.Tensor] = []

        def train(self) -> None:
            for _ in range(STEPS):
                data = torch.ones(8, 16, device=DEVICE)  # LEAK
                loss = self.model(data).square().mean()  # LEAK
                self.optimizer.zero_grad()
                loss.backward(retain_graph=True)
                self.history.append(loss)
                self.optimizer.step()

    LossTrainer().train()


def optimizer_only() -> None:
    """Each step keeps a tensor, beside a training that is as it should be."""
    model = _model()
    optimizer = torch.optim.Adam(model.parameters())
    kept = []
    for _ in range(STEPS):
        data = torch.ones(8, 16, device=DEVICE)
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()
        kept.append(torch.ones(256, device=DEVICE))  # LEAK


def optimizer_healthy() -> None:
    """The same, and nothing is kept; gradients are added up over two batches."""
    model = _model()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        for _ in range(2):
            model(torch.ones(8, 16, device=DEVICE)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def two_optimizers() -> None:
    """A generator and a discriminator in turn: one turn of both is one step, and what lives for one turn is no leak."""
    generator, discriminator = _model(), _model()
    optimizers = [torch.optim.Adam(model.parameters()) for model in (discriminator, generator)]
    kept = []
    for _ in range(STEPS):
        of_turn = torch.zeros(300, device=DEVICE)
        for model, optimizer in zip((discriminator, generator), optimizers, strict=True):
            optimizer.zero_grad()
            model(torch.ones(8, 16, device=DEVICE)).square().mean().backward()
            optimizer.step()
        kept.append(of_turn[:1].clone())  # LEAK


def optimizer_in_a_wrapper() -> None:
    """An optimizer that steps another one: one step, and a new wrapper for each counts as well."""
    model = _model()
    inner = torch.optim.SGD(model.parameters(), lr=0.1)

    class Wrapper(torch.optim.Optimizer):
        def step(self, closure: Any = None) -> Any:
            return inner.step(closure)

    for _ in range(STEPS):
        outer = Wrapper(model.parameters(), {})
        model(torch.ones(8, 16, device=DEVICE)).square().mean().backward()
        outer.step()
        outer.zero_grad()


def one_off_on_the_leaking_line() -> None:
    """A line that leaks a little in each step, and has once made a large table."""
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept = []
    for step in range(2 * STEPS):
        model(torch.ones(8, 16, device=DEVICE)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        size = 100_000 if step == STEPS else 100
        kept.append(torch.zeros(size, device=DEVICE))  # LEAK


def inference_with_growing_cache() -> None:
    """Forward passes only; keys and values of all requests are kept."""
    model = _model()
    cache = []
    with torch.no_grad():
        for _ in range(STEPS):
            out = model(torch.ones(8, 16, device=DEVICE))
            cache.append(out * 2)  # LEAK


def inference_with_bounded_cache() -> None:
    """Forward passes only; keys and values of the last three requests are kept."""
    model = _model()
    cache: collections.deque[torch.Tensor] = collections.deque(maxlen=3)
    with torch.no_grad():
        for _ in range(2 * STEPS):
            cache.append(model(torch.ones(8, 16, device=DEVICE)) * 2)


def inference_healthy() -> None:
    """Forward passes only, of two models."""
    encoder, decoder = _model(), torch.nn.Linear(4, 16).to(DEVICE)
    with torch.no_grad():
        for _ in range(STEPS):
            decoder(encoder(torch.ones(8, 16, device=DEVICE))).sum()


def _attend(request: int) -> torch.Tensor:
    """A model that is no module: a few operators, and the keys that a cache would have of the request."""
    state = torch.zeros(8, 16, device=DEVICE)
    keys = torch.ones(16, 8 + request % 3, device=DEVICE)
    for _ in range(3):
        state = torch.tanh(state @ keys @ keys.t())
    return keys


def kv_cache_that_grows() -> None:
    """Requests without any module, whose keys are kept for ever."""
    for request in range(REQUESTS):
        _answers[request] = _attend(request).clone()  # LEAK


def kv_cache_with_a_bound() -> None:
    """The same, for the latest requests."""
    for request in range(REQUESTS):
        _answers[request % 5] = _attend(request).clone()


class _Attention(torch.nn.Module):
    """One layer of a decoder, whose cache is concatenated."""

    def __init__(self) -> None:
        """Make its weights."""
        super().__init__()
        self.project = torch.nn.Linear(512, 3 * 512)

    def forward(self, state: torch.Tensor, past: _KeysAndValues | None) -> tuple[torch.Tensor, _KeysAndValues]:
        """Attend to all tokens so far."""
        query, key, value = self.project(state).unsqueeze(1).chunk(3, dim=-1)
        if past is not None:
            key, value = torch.cat((past[0], key), 2), torch.cat((past[1], value), 2)
        seen = torch.nn.functional.scaled_dot_product_attention(query, key, value)
        return seen.squeeze(1), (key, value)


def decoding_one_sequence() -> None:
    """Token after token of one sequence: its cache is longer in each step, and ends with it."""
    layer = _Attention().to(DEVICE)
    past: _KeysAndValues | None = None
    with torch.no_grad():
        state = torch.ones(32, 16, 512, device=DEVICE)
        for _ in range(2 * STEPS):
            seen, past = layer(state, past)
            state = seen[:, -1:]


def decoding_of_longer_prompts() -> None:
    """Sequences one after the other, each longer: the answer has the cache of its own until the next one is there."""
    layer = _Attention().to(DEVICE)
    answer = None
    with torch.no_grad():
        for request in range(14):
            past: _KeysAndValues | None = None
            state = torch.ones(16, 8 + 22 * request, 512, device=DEVICE)
            for _ in range(12):
                seen, past = layer(state, past)
                state = seen[:, -1:]
            answer = {"text": state, "cache": past}
    assert answer is not None


def decoding_that_keeps_sequences() -> None:
    """Sequences one after the other, whose caches are kept."""
    layer = _Attention().to(DEVICE)
    kept = []
    with torch.no_grad():
        for _ in range(2 * STEPS):
            _, past = layer(torch.ones(4, 8, 512, device=DEVICE), None)
            _, past = layer(torch.ones(4, 1, 512, device=DEVICE), past)
            kept.append([part.clone() for part in past])  # LEAK


def _serve(answer: Any, requests: int) -> None:
    """Requests to a server of HTTP, one after the other."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = str(answer(int(self.path[1:]))).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1])
    for request in range(requests):
        connection.request("GET", f"/{request}")
        connection.getresponse().read()
    connection.close()
    server.shutdown()
    thread.join()
    server.server_close()


def http_server_that_keeps() -> None:
    """A server that keeps the state of each request."""
    states: list[torch.Tensor] = []

    def answer(request: int) -> float:
        state = torch.ones(64, device=DEVICE) * request
        states.append(state.cumsum(0))  # LEAK
        return float((state @ state).item())

    _serve(answer, REQUESTS)


def http_server_healthy() -> None:
    """A server that keeps the state of the latest request of each of four users."""
    states: dict[int, torch.Tensor] = {}

    def answer(request: int) -> float:
        state = torch.ones(64, device=DEVICE) * request
        states[request % 4] = state.cumsum(0)
        return float((state @ state).item())

    _serve(answer, REQUESTS)


def tables_made_once() -> None:
    """A script that fills memory and ends: nothing grows from turn to turn, as there are no turns."""
    tables = [torch.zeros(64 + number, device=DEVICE) for number in range(REQUESTS)]
    assert len(tables) == REQUESTS
