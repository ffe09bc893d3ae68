"""Answer requests and grow: every answer stays in a cache that nobody empties.

`msmemscope --device=cpu python examples/serve_requests.py` names the line and the cache; with `--most-answers=20` it is mended.
"""

from __future__ import annotations

import argparse

import torch


class Server:
    """Embeds texts, and remembers what it answered."""

    def __init__(self, most_answers: int | None) -> None:
        self.words = torch.nn.Embedding(1000, 256)
        self.layer = torch.nn.Linear(256, 256)
        self.most_answers = most_answers
        self.answers: dict[int, torch.Tensor] = {}

    def answer(self, request: int) -> torch.Tensor:
        """Answer one request: 64 words, each as 256 numbers."""
        words = (torch.arange(64) * 7 + request) % 1000
        words = words.to(self.layer.weight.device)
        with torch.no_grad():
            answer = torch.relu(self.layer(self.words(words)))
        self.answers[request] = answer
        if self.most_answers is not None and len(self.answers) > self.most_answers:
            del self.answers[next(iter(self.answers))]
        return answer


def main() -> None:
    """Answer requests, each of them for the first time."""
    parser = argparse.ArgumentParser(description="Answer requests, and grow.")
    parser.add_argument("--device", default="cpu", choices=("cpu", "npu", "cuda"), help="where to compute")
    parser.add_argument("--requests", type=int, default=400, help="how many")
    parser.add_argument("--most-answers", type=int, help="remember so many answers, the newest (default: all)")
    arguments = parser.parse_args()
    server = Server(arguments.most_answers)
    for module in (server.words, server.layer):
        module.to(arguments.device)
    total = sum(server.answer(request).sum().item() for request in range(arguments.requests))
    print(f"{arguments.requests} requests, sum {total:.0f}, {len(server.answers)} answers kept")


if __name__ == "__main__":
    main()
