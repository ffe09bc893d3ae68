"""Score requests and grow on the host: all scores stay in a dictionary, as Python numbers.

`msmemscope --device=cpu python examples/serve_scores.py` names the line and the dictionary; with `--most-answers=20` it is mended.
"""

from __future__ import annotations

import argparse
import time

import torch


class Server:
    """Scores requests, and remembers what it answered."""

    def __init__(self, most_answers: int | None) -> None:
        self.layer = torch.nn.Linear(64, 64)
        self.most_answers = most_answers
        self.scores: dict[int, list[float]] = {}

    def answer(self, request: int) -> float:
        """Score one request: 24 times 64 numbers."""
        words = torch.full((24, 64), float(request), device=self.layer.weight.device)
        with torch.no_grad():
            scores: list[float] = self.layer(words).flatten().tolist()
        self.scores[request] = scores
        if self.most_answers is not None and len(self.scores) > self.most_answers:
            del self.scores[next(iter(self.scores))]
        return scores[0]


def main() -> None:
    """Score requests, each of them for the first time."""
    parser = argparse.ArgumentParser(description="Score requests, and grow on the host.")
    parser.add_argument("--device", default="cpu", choices=("cpu", "npu", "cuda"), help="where to compute")
    parser.add_argument("--requests", type=int, default=2000, help="how many")
    parser.add_argument("--most-answers", type=int, help="remember so many answers, the newest (default: all)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    server = Server(arguments.most_answers)
    server.layer.to(arguments.device)
    for request in range(arguments.requests):
        server.answer(request)
        time.sleep(0.0005)  # as long as the next request takes to come
    print(f"{arguments.requests} requests, {len(server.scores)} answers kept")


if __name__ == "__main__":
    main()
