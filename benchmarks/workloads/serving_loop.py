"""A served model under load: microseconds of a request, the median of all, with the texts and numbers that requests make."""

from __future__ import annotations

import json
import statistics
import time
from collections import deque

import torch

REQUESTS = 6_000


def main() -> None:
    """Measure, and print one line of JSON."""
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256))
    latest: deque[str] = deque(maxlen=100)
    times = []
    with torch.inference_mode():
        for request in range(REQUESTS):
            begin = time.perf_counter_ns()
            body = json.loads(json.dumps({"request": request, "values": [float(request + k) for k in range(256)]}))
            answer = model(torch.tensor(body["values"])[None]).argmax().item()
            latest.append(json.dumps({"request": request, "answer": answer, "echo": body["values"]}))
            times.append((time.perf_counter_ns() - begin) / 1000)
    print(json.dumps({"value": statistics.median(times)}))


if __name__ == "__main__":
    main()
