# report: "https://github.com/vllm-project/vllm/issues/57061"
# topic: "serving"
# kind: "host memory"
# symptom: "the API server's host memory grows without bound when clients disconnect or time out, until it is killed"
# cause: "a request is registered with the output processor before it is sent to the engine; when its task is cancelled at that await, nobody aborts it and its RequestState, with prompt and token ids, stays in request_states"
# devices: ["cpu"]
# holder: ["request_states"]
# mebibytes: [80, 118]
# remedy: "release"
# options: []
# fixed: True
import asyncio
import os
import random
import sys

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
VOCABULARY = 30000


class RequestState:
    def __init__(self, request_id, prompt, prompt_token_ids):
        self.request_id, self.prompt, self.prompt_token_ids = request_id, prompt, prompt_token_ids
        self.done = asyncio.Event()


class OutputProcessor:
    def __init__(self):
        self.request_states = {}

    def add_request(self, request_id, prompt, prompt_token_ids):
        state = RequestState(request_id, prompt, prompt_token_ids)
        self.request_states[request_id] = state  # BLAME
        return state

    def process(self, request_id, token):
        state = self.request_states.pop(request_id)
        state.token = token
        state.done.set()

    def abort_requests(self, request_ids):
        for request_id in request_ids:
            self.request_states.pop(request_id, None)


class EngineCore:
    def __init__(self):
        self.model = nn.Sequential(nn.EmbeddingBag(VOCABULARY, 64), nn.Linear(64, VOCABULARY))

    async def add_request_async(self, request_id, prompt_token_ids):
        await asyncio.sleep(0.004)  # the socket is busy
        with torch.inference_mode():
            return self.model(torch.tensor([prompt_token_ids[:4096]])).argmax().item()


class AsyncLLM:
    def __init__(self):
        self.output_processor, self.engine_core = OutputProcessor(), EngineCore()

    def tokenize(self, prompt):
        return [hash(prompt[k : k + 5]) % VOCABULARY for k in range(0, len(prompt), 5)]  # BLAME

    async def generate(self, request_id, prompt):
        state = self.output_processor.add_request(request_id, prompt, self.tokenize(prompt))  # BLAME
        try:
            token = await self.engine_core.add_request_async(request_id, state.prompt_token_ids)
        except asyncio.CancelledError:
            if "fixed" in sys.argv:
                self.output_processor.abort_requests([request_id])
            raise
        self.output_processor.process(request_id, token)
        await state.done.wait()
        return state.token


def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def read_prompt(letters):
    return "".join(letters.choices("abcdefghijklmnopqrstuvwxyz", k=240_000))  # BLAME


async def main():
    engine, letters, start = AsyncLLM(), random.Random(0), None
    for number in range(72):
        request = asyncio.create_task(engine.generate(f"cmpl-{number}", read_prompt(letters)))
        await asyncio.sleep(0)
        if number % 4:
            request.cancel()
        (answer,) = await asyncio.gather(request, return_exceptions=True)
        start = start or resident()
        if number % 12 == 11:
            print(
                f"{number + 1} requests: {len(engine.output_processor.request_states)} states,"
                f" last answer {answer!r}, grown by {resident() - start:.0f} MiB",
                flush=True,
            )


asyncio.run(main())
