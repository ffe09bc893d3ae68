"""Training that needs more memory than there is: a larger batch, state of the optimizer, copies, what steps keep."""

from __future__ import annotations

import copy
import io

import torch

import msmemscope

from . import DEVICE, MEBIBYTE, is_applied

WIDTH = 2048
"""Of layers: their weights have 16 MiB."""


class Model(torch.nn.Module):
    """Linear layers, each with a call of its own in a loop."""

    def __init__(self, layers: int) -> None:
        """Make them."""
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH, device=DEVICE) for _ in range(layers))

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Call them."""
        for layer in self.layers:
            value = torch.relu(layer(value))
        return value


def _adam(model: torch.nn.Module) -> torch.optim.Optimizer:
    """Returns Adam, or what needs no state."""
    kind = torch.optim.SGD if is_applied("shard or lighten the optimizer") else torch.optim.Adam
    return kind(model.parameters(), foreach=False)


def _step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: int) -> None:
    optimizer.zero_grad()
    model(torch.zeros(batch, WIDTH, device=DEVICE)).sum().backward()
    optimizer.step()
    msmemscope.step()


class BatchModel(Model):
    """The model that meets a larger batch."""

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Call the layers."""
        for layer in self.layers:
            value = torch.relu(layer(value))  # CAUSE batch jump
        return value


def batch_jump() -> None:
    """The batch of step 3 is four times as large as those before it."""
    model = BatchModel(10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    for batch in (1920, 1920, 1920 if is_applied("lower the batch") else 7680, 1920):
        _step(model, optimizer, batch)


def batch_jump_behind_gaps() -> None:
    """The same, with gaps in the reserve in which a part of it would fit."""
    pieces = [torch.empty(8 * MEBIBYTE, dtype=torch.uint8, device=DEVICE) for _ in range(20)]
    kept = pieces[::2]
    del pieces
    model = BatchModel(10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    for batch in (1536, 1536, 1536 if is_applied("lower the batch") else 6144, 1536):
        _step(model, optimizer, batch)
    assert kept


def leak() -> None:
    """The results of all steps are kept, with what backward would need."""
    model = Model(4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    history = []
    for _ in range(30):
        _step(model, optimizer, 1024)
        history.append(torch.zeros(32 * MEBIBYTE, dtype=torch.uint8, device=DEVICE))  # CAUSE leak
        if is_applied("release what steps keep"):
            del history[:-1]
    assert history


def leak_of_graphs() -> None:
    """A list of losses that keep their graphs."""
    model = Model(4)
    history = []
    for _ in range(40):
        value = torch.zeros(512, WIDTH, device=DEVICE)
        for layer in model.layers:
            value = torch.relu(layer(value))  # CAUSE leak
        history.append(value.sum().detach() if is_applied("release what steps keep") else value.sum())
        msmemscope.step()
    assert history


def optimizer_state() -> None:
    """Weights and gradients fit, and the two moments of Adam do not."""
    model = Model(14)
    optimizer = _adam(model)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.zeros(64, WIDTH, device=DEVICE)).sum().backward()
        optimizer.step()  # CAUSE optimizer state
        msmemscope.step()


def optimizer_state_later() -> None:
    """The state fits when it is made, and the activations of the next step do not fit beside it."""
    model = Model(6)
    optimizer = _adam(model)
    for _ in range(3):
        optimizer.zero_grad(set_to_none=False)
        model(torch.zeros(8192, WIDTH, device=DEVICE)).sum().backward()
        optimizer.step()  # CAUSE optimizer state
        msmemscope.step()


def checkpoint_copied() -> None:
    """A copy of the weights on the device, in the third step."""
    model = Model(18)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    best = None
    for step in range(4):
        _step(model, optimizer, 512)
        if step == 2:
            if is_applied("copy to the host one by one"):
                best = {name: value.cpu() for name, value in model.state_dict().items()}
                continue
            best = copy.deepcopy(model.state_dict())  # CAUSE checkpoint
    assert best is not None


def checkpoint_saved() -> None:
    """The program puts the state together in one piece on the device before it saves it."""
    model = Model(18)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    for step in range(4):
        _step(model, optimizer, 512)
        if step == 2:
            weights = model.state_dict().items()
            if is_applied("copy to the host one by one"):
                torch.save({name: value.cpu() for name, value in weights}, io.BytesIO())
                continue
            state = {name: value.clone() for name, value in weights}  # CAUSE checkpoint
            torch.save(state, io.BytesIO())


def model_too_large() -> None:
    """The weights alone are more than the card has."""
    model = torch.nn.Sequential()
    if is_applied("split or quantize the model"):
        for number in range(64):
            layer = torch.nn.Linear(WIDTH, WIDTH, device=DEVICE, dtype=torch.bfloat16)
            model.append(layer.requires_grad_(number >= 60))
        model(torch.zeros(64, WIDTH, device=DEVICE, dtype=torch.bfloat16)).sum().backward()
        return
    for _ in range(64):
        model.append(torch.nn.Linear(WIDTH, WIDTH, device=DEVICE))  # CAUSE model too large
    _step(model, torch.optim.SGD(model.parameters(), lr=0.1), 64)
