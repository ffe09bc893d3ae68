"""Programs after public reports, as their users would write them: nothing marks their steps."""

from __future__ import annotations

import copy
import gc
import queue
import threading
import time
from collections import deque

import torch
import torch.utils.checkpoint

from . import DEVICE, is_applied


def _layers(count: int, width: int) -> torch.nn.Sequential:
    pairs = ((torch.nn.Linear(width, width, device=DEVICE), torch.nn.ReLU()) for _ in range(count))
    return torch.nn.Sequential(*(layer for pair in pairs for layer in pair))


def evaluation_with_gradients() -> None:
    """An evaluation of 30 batches without no_grad adds up losses that hold 30 graphs."""
    model = _layers(4, 512)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for step in range(6):
        model(torch.zeros(4096, 512, device=DEVICE)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 4:
            total = torch.zeros((), device=DEVICE)
            with torch.set_grad_enabled(not is_applied("release what steps keep")):
                for _ in range(30):
                    batch = torch.zeros(4096, 512, device=DEVICE)
                    total = total + model(batch).square().mean()  # CAUSE kept by the program


def state_never_detached() -> None:
    """Truncated back-propagation without detach: the graph of the state grows with each step."""
    cell = torch.nn.GRUCell(512, 512).to(DEVICE)
    state = torch.zeros(2048, 512, device=DEVICE)
    optimizer = torch.optim.SGD(cell.parameters(), 1e-3)
    for _ in range(40):
        if is_applied("release what steps keep"):
            state = state.detach()
        state = cell(torch.zeros(2048, 512, device=DEVICE), state)  # CAUSE leak
        optimizer.zero_grad()
        state.square().mean().backward(retain_graph=True)
        optimizer.step()


def second_model() -> None:
    """A reward model joins in step 4, after which nobody needs the first one."""
    model: torch.nn.Module | None = _layers(10, 2048)
    assert model is not None
    optimizer: torch.optim.Optimizer | None = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)
    for step in range(6):
        if step == 3:
            if is_applied("release the other model first"):
                model = optimizer = None
            reward = _layers(24, 2048)  # CAUSE second model
            assert reward is not None
        if model is not None and optimizer is not None:
            model(torch.zeros(64, 2048, device=DEVICE)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()


def teacher_beside_its_student() -> None:
    """A distillation: most of the teacher is still on the host where it fails, and what is there would fit into gaps."""
    layers = [torch.nn.Linear(1536, 1536) for _ in range(20)]
    student: torch.nn.Module | None = torch.nn.Sequential(*layers).to(DEVICE)
    assert student is not None
    optimizer: torch.optim.Optimizer | None = torch.optim.SGD(student.parameters(), 1e-3, momentum=0.9)
    student(torch.zeros(64, 1536, device=DEVICE)).mean().backward()
    assert optimizer is not None
    optimizer.step()
    if is_applied("release the other model first"):
        layers.clear()
        student = optimizer = None
    teacher = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(30)))
    teacher.to(DEVICE)  # CAUSE second model


class _Network(torch.nn.Module):
    """Layers whose results are kept until all are there."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(1024, 1024, device=DEVICE) for _ in range(6))

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        kept = []
        for layer in self.layers:
            value = torch.relu(layer(value))  # CAUSE kept by an exception
            kept.append(value)
        return torch.stack([one.mean() for one in kept]).sum()


def _train(network: _Network, optimizer: torch.optim.Optimizer, size: int) -> None:
    loss = network(torch.zeros(size, 1024, device=DEVICE))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def retry_inside_except() -> None:
    """Half of a batch that did not fit does not fit either: the traceback holds the variables of the failed attempt."""
    network = _Network()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    for step in range(8):
        size = 2048 if step < 4 else 16000
        has_failed = False
        try:
            _train(network, optimizer, size)
        except torch.OutOfMemoryError:
            has_failed = True
            if not is_applied("retry behind the except clause"):
                getattr(torch, DEVICE).empty_cache()
                _train(network, optimizer, size // 2)
        if has_failed and is_applied("retry behind the except clause"):
            getattr(torch, DEVICE).empty_cache()
            _train(network, optimizer, size // 2)


class _Prediction:
    """The scores that a model gives to one batch, with a reference to that batch."""

    def __init__(self, batch: _Batch, scores: torch.Tensor) -> None:
        self.batch, self.scores = batch, scores


class _Batch:
    """A batch, which refers to what was said of it."""

    def __init__(self) -> None:
        self.predictions: list[_Prediction] = []


def batches_in_cycles() -> None:
    """Batches that are done wait for the garbage collector, which counts objects and no bytes (pytorch issue 50185)."""
    model = _layers(4, 1024)
    with torch.no_grad():
        for _ in range(80):
            batch = _Batch()
            values = torch.zeros(4096, 1024, device=DEVICE)
            batch.predictions.append(_Prediction(batch, model(values)))  # CAUSE reference cycles
            del batch
            if is_applied("break the cycle or collect garbage"):
                gc.collect()


class _HiddenStates(torch.nn.Module):
    """Layers that return all that they computed."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(256, 256, device=DEVICE) for _ in range(count))

    def forward(self, value: torch.Tensor) -> list[torch.Tensor]:
        values = [value]
        for layer in self.layers:
            values.append(values[-1] + torch.relu(layer(values[-1])))  # CAUSE kept by the program
        return values


def outputs_of_last_step() -> None:
    """The hidden states of a step are alive until its variable is given the next ones (fms-fsdp pull request 152)."""
    model = _HiddenStates(12)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    outputs = None
    for _ in range(4):
        batch = torch.zeros(26_500, 256, device=DEVICE)
        if is_applied("release what steps keep"):
            outputs = None
        outputs = model(batch)
        outputs[-1].square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def distances_by_broadcasting() -> None:
    """Queries are compared with all entries of a bank at once, in a tensor of three dimensions."""
    encoder = torch.nn.Linear(256, 64, device=DEVICE)
    with torch.no_grad():
        bank = torch.cat([encoder(torch.zeros(512, 256, device=DEVICE)) for _ in range(8)])
        queries = encoder(torch.zeros(1024, 256, device=DEVICE))
        for some in queries.split(64 if is_applied("ask for less at once") else 1024):
            ((some[:, None] - bank[None]) ** 2).sum(-1)  # CAUSE one large block


def larger_batch_in_validation() -> None:
    """The loader of the validation has a larger batch, and calls the model from a line of its own."""
    model = _layers(4, 512)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for _ in range(6):
        model(torch.zeros(1024, 512, device=DEVICE)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        batch = torch.zeros(2048 if is_applied("lower the batch") else 145_000, 512, device=DEVICE)
        model(batch).square().mean()  # CAUSE batch jump


class _Decoder(torch.nn.Module):
    """Keys of all tokens so far, which each call joins to those before."""

    def __init__(self) -> None:
        super().__init__()
        self.project = torch.nn.Linear(512, 512, device=DEVICE)
        self.keys: torch.Tensor | None = None

    def forward(self, token: torch.Tensor) -> torch.Tensor:
        new = self.project(token)
        before = new[:0] if self.keys is None else self.keys
        self.keys = torch.cat([before, new])  # CAUSE KV cache
        if is_applied("bound the cache"):
            self.keys = self.keys[-4096:].clone()
        return self.keys.square().sum(0)


def keys_joined_by_token() -> None:
    """One prompt, and more tokens than there is room for."""
    decoder = _Decoder()
    with torch.no_grad():
        for _ in range(200):
            decoder(torch.zeros(1024, 512, device=DEVICE))


def copied_for_averages() -> None:
    """A copy of the model for averaged weights joins after a warm-up, and the next backward pass does not fit."""
    model = _layers(13, 2044)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4, momentum=0.9)
    averaged = None
    for step in range(8):
        model(torch.zeros(256, 2044, device=DEVICE)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 3 and not is_applied("release the other model first"):
            averaged = copy.deepcopy(model)  # CAUSE second model
    del averaged


class _Residual(torch.nn.Module):
    """Layers whose results the backward pass needs."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(256, 256, device=DEVICE) for _ in range(24))

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            value = value + torch.relu(layer(value))  # CAUSE real shortage
        return value


def first_forward() -> None:
    """A batch that is too large fills the device in the first forward pass: nothing is kept that no step needs."""
    model = _Residual()
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    for _ in range(3):
        batch = torch.zeros(4096 if is_applied("use less at this moment") else 20_400, 256, device=DEVICE)
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


class _Recomputed(torch.nn.Module):
    """Blocks whose activations are computed again in the backward pass, but not while the model is evaluated."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(torch.nn.Linear(1024, 1024, device=DEVICE) for _ in range(count))

    def _block(self, place: int, value: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(self.blocks[place](value)) + value  # CAUSE more blocks than before

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        for place in range(len(self.blocks)):
            if self.training:
                recompute = torch.utils.checkpoint.checkpoint
                value = recompute(self._block, place, value, use_reentrant=False)
            else:
                value = self._block(place, value)
        return value.square().mean()


def model_left_in_evaluation() -> None:
    """After an evaluation the model stays in that mode, so nothing is recomputed any more (diffusers issue 9850)."""
    model = _Recomputed(12)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for step in range(8):
        model(torch.zeros(8192, 1024, device=DEVICE)).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 4:
            model.eval()
            with torch.no_grad():
                model(torch.zeros(512, 1024, device=DEVICE))
            if is_applied("free what earlier steps freed"):
                model.train()


class _Tuned(torch.nn.Module):
    """A backbone, frozen at first, with a head."""

    def __init__(self) -> None:
        super().__init__()
        layers = ((torch.nn.Linear(256, 256, device=DEVICE), torch.nn.GELU()) for _ in range(10))
        self.backbone = torch.nn.Sequential(*(layer for pair in layers for layer in pair)).requires_grad_(False)
        self.head = torch.nn.Linear(256, 100, device=DEVICE)
        self.recomputes = False

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        if self.recomputes:
            return self.head(torch.utils.checkpoint.checkpoint_sequential(self.backbone, 5, value, use_reentrant=False))
        return self.head(self.backbone(value))  # CAUSE more blocks than before


def backbone_unfrozen() -> None:
    """From step 9 on, each layer of the backbone keeps its input for the gradient. The failing one is not the last."""
    model = _Tuned()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    for step in range(12):
        if step == 8:
            model.backbone.requires_grad_(True)
            model.recomputes = is_applied("free what earlier steps freed")
        model(torch.zeros(40_960, 256, device=DEVICE)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


class _Attention(torch.nn.Module):
    """Attention whose scores grow with the square of the text."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = torch.nn.Linear(128, 384, device=DEVICE)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        query, key, mixed = (part.view(len(value), 4, 32).transpose(0, 1) for part in self.mix(value).chunk(3, -1))
        scores = query @ key.transpose(1, 2) / 32**0.5  # CAUSE batch jump
        return value + (scores.softmax(-1) @ mixed).transpose(0, 1).reshape(value.shape)


def one_long_document() -> None:
    """A service whose requests have 300 to 900 tokens, until one has 6,000."""
    model = torch.nn.Sequential(_Attention(), _Attention()).eval()
    longest = 900 if is_applied("lower the batch") else 6000
    with torch.inference_mode():
        for request in range(20):
            length = longest if request == 15 else 300 + 97 * request % 600
            model(torch.zeros(length, 128, device=DEVICE)).mean()


def queue_that_a_thread_fills() -> None:
    """Batches of 20 MiB wait in a queue without a bound: 12 after four steps, 33 when the fifth begins."""
    ready: queue.Queue[torch.Tensor] = queue.Queue(1 if is_applied("release what steps keep") else 0)
    wanted = threading.Semaphore(0)

    def fill() -> None:
        while True:
            wanted.acquire()
            ready.put(torch.zeros(20, 256, 1024, device=DEVICE))  # CAUSE leak

    threading.Thread(target=fill, daemon=True).start()
    model = _layers(2, 1024)
    for step, count in enumerate((4, 4, 4, 4, 21, 1, 1), 1):
        wanted.release(count)
        while not is_applied("release what steps keep") and ready.qsize() < count + 3 * (step - 1):
            time.sleep(0.01)
        model(ready.get().flatten(0, 1)).square().mean().backward()
        model.zero_grad()


def more_micro_batches() -> None:
    """All micro-batches go forward before the first backward pass, and in step 7 there are 16 of them and not 4."""
    model = _layers(4, 1024)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    for step in range(9):
        losses = []
        count = 16 if step == 6 and not is_applied("free what earlier steps freed") else 4
        for _ in range(count):
            result = model(torch.zeros(2560, 1024, device=DEVICE))  # CAUSE more blocks than before
            losses.append(result.square().mean())
        torch.stack(losses).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def search_for_a_batch_size() -> None:
    """Each batch is a tenth smaller. The pool still has the segments of the one before, which are a little too large."""
    getattr(torch, DEVICE).empty_cache()
    for attempt in range(7):
        size = int(88_000 * 0.9**attempt)
        try:
            model = _layers(8, 256)
            for _ in range(2):
                batch = torch.randn(size, 256, device=DEVICE)
                model(batch).square().mean().backward()  # CAUSE fragmentation by splitting
                model.zero_grad()
        except torch.OutOfMemoryError:
            if attempt == 6:
                raise
            getattr(torch, DEVICE).empty_cache()  # the error still has the blocks of this attempt
        else:
            return


def replay_buffer_on_the_device() -> None:
    """Transitions of a buffer of limited size lie on the device, which is full before the buffer is."""
    model = _layers(4, 512)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    transitions: deque[torch.Tensor] = deque(maxlen=32 if is_applied("bound the cache") else 400)
    for step in range(300):
        for _ in range(1 + step % 2):
            transitions.append(torch.zeros(1024, 512, device=DEVICE))  # CAUSE bounded container
        model(torch.cat([transitions[0], transitions[-1]])).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def results_of_folds() -> None:
    """A cross-validation: the result of each fold has its model and its optimizer, for an ensemble that may come later."""

    def train() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
        model = _layers(6, 1024)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
        for _ in range(6):
            model(torch.zeros(256, 1024, device=DEVICE)).square().mean().backward()
            optimizer.step()  # CAUSE kept by the program
            optimizer.zero_grad()
        return model, optimizer

    results = []
    for _ in range(12):
        results.append(train())
        if is_applied("release what steps keep"):
            results.clear()
