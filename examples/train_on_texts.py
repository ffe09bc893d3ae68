"""Train on texts of different lengths and run out of memory: one text is long, and its whole batch is padded to its length.

`msmemscope --device=cpu python examples/train_on_texts.py` names the cause and the line; with `--most-words=256` it is mended.
On the CPU the program may take `--room` MiB of memory, so that nobody else's runs out.
"""

from __future__ import annotations

import argparse
import resource
from pathlib import Path

import torch
from torch import nn

try:  # Marks the end of each step in the recording. The program does not need it.
    from msmemscope import step as end_of_step
except ImportError:

    def end_of_step() -> None:
        """Do nothing: the tool is not installed."""


WIDTH = 256
LONG_STEP = 6


def padded(lengths: list[int]) -> torch.Tensor:
    """Return texts of so many words, each filled up to the longest one."""
    return nn.utils.rnn.pad_sequence([torch.ones(length, dtype=torch.long) for length in lengths], batch_first=True)


def limit_memory(mebibytes: int) -> None:
    """Let this process have so much more memory, and no more."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + (mebibytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main() -> None:
    """Train; one text of one step is longer than all others."""
    parser = argparse.ArgumentParser(description="Train on texts, one of them long.")
    parser.add_argument("--device", default="cpu", choices=("cpu", "npu", "cuda"), help="where to train")
    parser.add_argument("--room", type=int, default=384, metavar="MIB", help="memory that may be taken on the CPU")
    parser.add_argument("--most-words", type=int, default=4096, metavar="N", help="cut off what is longer")
    arguments = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Embedding(1000, WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, 1))
    model.to(arguments.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(1, 9):
        lengths = [128 + 8 * text for text in range(15)] + [4096 if step == LONG_STEP else 248]
        words = padded([min(length, arguments.most_words) for length in lengths]).to(arguments.device)
        loss = (model(words) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {words.shape[1]} words, loss {loss.item():.6f}", flush=True)
        end_of_step()
        if step == 1 and arguments.device == "cpu":
            limit_memory(arguments.room)  # by now all libraries are loaded


if __name__ == "__main__":
    main()
