# report: "https://github.com/waybarrios/vllm-mlx/pull/154"
# topic: "serving"
# kind: "leak"
# symptom: "a backend that answers questions about pictures runs out of memory after some thousands of requests"
# cause: "MLLMScheduler.requests is never drained: finished and aborted requests are cleaned from all other tables, but stay in this one with their pictures"
# devices: ["npu", "cpu"]
# memory: "1GiB"
# holder: ["requests"]
# mebibytes: [90, 141]
# remedy: "release"
# options: []
# fixed: True
import os
import sys
from collections import deque

import torch
from torch import nn

DEV = os.environ.get("DEV", "npu")
if DEV == "npu":
    import torch_npu  # noqa: F401

torch.set_num_threads(1)
torch.manual_seed(0)


class MLLMRequest:
    def __init__(self, request_id, prompt, images, max_tokens):
        self.request_id, self.prompt, self.max_tokens = request_id, prompt, max_tokens
        self.pixel_values = torch.stack([(image.float() / 127.5 - 1).to(DEV) for image in images])  # BLAME
        self.output_tokens = []


class VisionModel(nn.Module):
    def __init__(self, width=128, vocabulary=2000):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 28, stride=28)
        self.tokens = nn.Embedding(vocabulary, width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, pixel_values, token):
        picture = self.patches(pixel_values).mean((0, 2, 3))
        return self.head(torch.tanh(picture + self.tokens.weight[token])).argmax().item()


class MLLMScheduler:
    def __init__(self, model, max_num_seqs=2):
        self.model, self.max_num_seqs = model, max_num_seqs
        self.requests, self.waiting, self.running = {}, deque(), {}
        self.finished_req_ids = set()

    def add_request(self, request):
        self.requests[request.request_id] = request  # BLAME
        self.waiting.append(request)

    def _cleanup_finished(self, finished):
        for request_id in finished:
            self.running.pop(request_id)
            self.finished_req_ids.add(request_id)
            if "fixed" in sys.argv:
                self.requests.pop(request_id, None)

    @torch.inference_mode()
    def step(self):
        while self.waiting and len(self.running) < self.max_num_seqs:
            request = self.waiting.popleft()
            self.running[request.request_id] = request
        finished = []
        for request in self.running.values():
            last = request.output_tokens[-1] if request.output_tokens else request.prompt[-1]
            request.output_tokens.append(self.model(request.pixel_values, last))
            if len(request.output_tokens) == request.max_tokens:
                finished.append(request.request_id)
        self._cleanup_finished(finished)
        return finished


def main():
    scheduler = MLLMScheduler(VisionModel().to(DEV).eval())
    for number in range(30):
        images = torch.randint(0, 256, (1 + number % 3, 3, 448, 448), dtype=torch.uint8)
        scheduler.add_request(MLLMRequest(f"chatcmpl-{number}", [5, 6, 7], images, max_tokens=3 + number % 4))
        scheduler.step()
        if number % 6 == 5:
            while scheduler.running or scheduler.waiting:
                scheduler.step()
            used = f", {torch.npu.memory_allocated() / 2**20:.1f} MiB in use" if DEV == "npu" else ""
            print(f"{number + 1} requests: {len(scheduler.running)} run{used}", flush=True)


main()
