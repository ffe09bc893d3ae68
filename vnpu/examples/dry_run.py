"""How much device memory does one training step take? Asked before any NPU is booked.

    vnpu run --compute=none -- python dry_run.py --size 7b
    vnpu run --compute=none -- python dry_run.py --size 7b --foreach   # torch.OutOfMemoryError: AdamW's temporaries
    vnpu run --compute=none -- python dry_run.py --size 13b            # torch.OutOfMemoryError: too large in any case

A GPT in bfloat16 makes one step: forward, backward with activation checkpoints, AdamW. With compute=none operators only
allocate, so a laptop is enough: the numbers that come out of the model mean nothing, the memory does.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

# Width, layers and heads of the usual models of that size.
SIZES = {"1b": (2048, 24, 16), "7b": (4096, 32, 32), "13b": (5120, 40, 40)}
VOCABULARY = 32_000
GIB = 1 << 30


class Block(nn.Module):
    """One transformer layer: causal self-attention, then a feed-forward network four times as wide."""

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
    """A decoder with checkpointed layers."""

    def __init__(self, width: int, layers: int, heads: int, context: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.last_norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Map (batch, context) tokens to (batch, context, vocabulary) scores."""
        x = self.tokens(codes) + self.positions(torch.arange(codes.shape[1], device=codes.device))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(self.last_norm(x))


def main() -> None:
    """Make one training step and report its memory."""
    parser = argparse.ArgumentParser(description="One training step of a GPT, for its memory.")
    parser.add_argument("--size", choices=SIZES, default="7b", help="how many parameters")
    parser.add_argument("--batch", type=int, default=1, help="sequences in a step")
    parser.add_argument("--context", type=int, default=2048, help="tokens in a sequence")
    parser.add_argument("--foreach", action="store_true", help="let AdamW update all parameters at once")
    arguments = parser.parse_args()

    begin = time.perf_counter()
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("npu"):
        model = GPT(*SIZES[arguments.size], arguments.context)
        codes = torch.zeros(arguments.batch, arguments.context, dtype=torch.int64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=arguments.foreach)
    count = sum(parameter.numel() for parameter in model.parameters())
    print(f"parameters            {count / 1e9:.2f} billion")
    print(f"after the model       {torch.npu.memory_allocated() / GIB:.2f} GiB")
    scores = model(codes)
    loss = functional.cross_entropy(scores.flatten(0, 1), codes.flatten())
    print(f"after forward         {torch.npu.memory_allocated() / GIB:.2f} GiB")
    loss.backward()
    print(f"after backward        {torch.npu.memory_allocated() / GIB:.2f} GiB")
    optimizer.step()
    torch.npu.synchronize()
    print(f"after the step        {torch.npu.memory_allocated() / GIB:.2f} GiB")
    print(f"max_memory_allocated  {torch.npu.max_memory_allocated() / GIB:.2f} GiB")
    print(f"max_memory_reserved   {torch.npu.max_memory_reserved() / GIB:.2f} GiB")
    print(f"seconds               {time.perf_counter() - begin:.1f}")


if __name__ == "__main__":
    main()
