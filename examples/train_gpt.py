"""Train a small GPT on characters: a complete PyTorch program to try msmemscope on.

It runs by itself (`python examples/train_gpt.py`) and under the tool
(`msmemscope --call-stack=python python examples/train_gpt.py`); the losses are the same to the last bit.
"""

from __future__ import annotations

import argparse
import math

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

try:  # Marks the end of each step in the recording. The program does not need it.
    from msmemscope import step as end_of_step
except ImportError:

    def end_of_step() -> None:
        """Do nothing: the tool is not installed."""


SUBJECTS = ("the tensor", "a gradient", "the optimizer", "my model", "one block", "the cache")
VERBS = ("holds", "frees", "copies", "forgets", "shares", "keeps")
OBJECTS = ("its memory", "a view", "the last step", "many bytes", "an old loss", "every weight")


def make_text() -> str:
    """Return about 6,000 characters of simple sentences, always the same ones."""
    return " ".join(f"{subject} {verb} {item}." for subject in SUBJECTS for verb in VERBS for item in OBJECTS)


class Characters(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Windows of a text: the characters, and the characters that follow them."""

    def __init__(self, text: str, context: int) -> None:
        self.vocabulary = sorted(set(text))
        self.codes = torch.tensor([self.vocabulary.index(character) for character in text])
        self.context = context

    def __len__(self) -> int:
        return len(self.codes) - self.context

    def __getitem__(self, start: int) -> tuple[torch.Tensor, torch.Tensor]:
        window = self.codes[start : start + self.context + 1]
        return window[:-1], window[1:]


class Block(nn.Module):
    """One transformer layer: causal self-attention, then a feed-forward network."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.attention = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.before_network = nn.LayerNorm(width)
        self.network = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, context, width) to the same shape."""
        batch, context, width = x.shape
        heads = self.attention(self.before_attention(x)).view(batch, context, 3, self.heads, width // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(batch, context, width))
        return x + self.network(self.before_network(x))


class GPT(nn.Module):
    """A character-level language model."""

    def __init__(self, vocabulary: int, context: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.last_norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Map (batch, context) character codes to (batch, context, vocabulary) scores of the next character."""
        places = torch.arange(codes.shape[1], device=codes.device)
        return self.head(self.last_norm(self.blocks(self.tokens(codes) + self.positions(places))))


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train a small GPT on characters.")
    parser.add_argument(
        "--device", choices=("cpu", "npu", "cuda"), help="where to train (default: an NPU if there is one)"
    )
    parser.add_argument("--steps", type=int, default=20, help="optimizer steps")
    parser.add_argument("--batch", type=int, default=16, help="windows per step")
    parser.add_argument("--optimizer", default="adamw", choices=("sgd", "adamw"), help="which optimizer")
    parser.add_argument("--compile", action="store_true", help="train the compiled model (torch.compile)")
    parser.add_argument("--workers", type=int, default=0, help="processes that load the data")
    parser.add_argument("--leak", action="store_true", help="keep a loss of each step with its whole graph")
    parser.add_argument("--seed", type=int, default=1234, help="seed of weights and data order")
    arguments = parser.parse_args()
    if arguments.device is None:  # torch_npu, where it is installed, has been loaded by torch
        arguments.device = "npu" if hasattr(torch, "npu") and torch.npu.is_available() else "cpu"
    return arguments


def main() -> None:
    """Train, printing each step's loss with every digit."""
    arguments = parse_arguments()
    torch.manual_seed(arguments.seed)
    torch.use_deterministic_algorithms(mode=True, warn_only=True)

    context = 64
    data = Characters(make_text(), context)
    loader = DataLoader(
        data, arguments.batch, shuffle=True, drop_last=True, num_workers=arguments.workers,
        generator=torch.Generator().manual_seed(arguments.seed),
    )  # fmt: skip
    model = GPT(len(data.vocabulary), context, width=128, layers=4, heads=4).to(arguments.device)
    trained = torch.compile(model) if arguments.compile else model
    if arguments.optimizer == "sgd":
        optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    print(f"device {arguments.device}")
    print(f"parameters {sum(parameter.numel() for parameter in model.parameters())}")
    history: list[torch.Tensor] = []
    batches = iter(loader)
    for number in range(1, arguments.steps + 1):
        try:
            codes, targets = next(batches)
        except StopIteration:
            batches = iter(loader)
            codes, targets = next(batches)
        codes, targets = codes.to(arguments.device), targets.to(arguments.device)
        scores = trained(codes)
        loss = functional.cross_entropy(scores.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {number} loss {loss.item()!r}")
        if arguments.leak:
            # Checking the loss again, without torch.no_grad() and without .item(): each entry of the history keeps
            # its whole graph, and with it every activation of that forward pass.
            history.append(functional.cross_entropy(model(codes).flatten(0, 1), targets.flatten()))
        end_of_step()
    print(f"chance {math.log(len(data.vocabulary))!r}")


if __name__ == "__main__":
    main()
