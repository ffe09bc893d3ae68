# report: "https://github.com/vllm-project/vllm-omni/issues/6462"
# topic: "serving"
# kind: "leak"
# symptom: "host memory of the API server grows while clients disconnect from requests for pictures before they are done"
# cause: "the finished picture of an aborted request stays in the executor's _completed_outputs, which only wait_output_ready() empties, and nobody waits for it any more"
# devices: ["cpu"]
# holder: ["_completed_outputs"]
# mebibytes: [70, 116]
# remedy: "release"
# options: []
# fixed: True
import asyncio
import dataclasses
import sys

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)


@dataclasses.dataclass
class DiffusionOutput:
    request_id: str
    output: torch.Tensor


class MultiprocExecutor:
    def __init__(self):
        self.decoder = nn.Sequential(
            nn.Conv2d(4, 32, 3, padding=1), nn.SiLU(), nn.ConvTranspose2d(32, 3, 8, stride=8), nn.Tanh()
        )
        self._completed_outputs = {}
        self._aborted = set()

    async def execute(self, request_id, steps):
        latents = torch.randn(1, 4, 64, 64)
        for _ in range(steps):
            latents = latents - 0.1 * torch.tanh(latents)
            await asyncio.sleep(0)
        with torch.inference_mode():
            image = self.decoder(latents)  # BLAME
        if request_id in self._aborted and "fixed" in sys.argv:
            self._aborted.discard(request_id)
            return
        self._completed_outputs[request_id] = DiffusionOutput(request_id, image)  # BLAME

    async def wait_output_ready(self, request_id):
        while request_id not in self._completed_outputs:
            await asyncio.sleep(0)
        return self._completed_outputs.pop(request_id)

    def abort(self, request_id):
        self._aborted.add(request_id)


class APIServer:
    def __init__(self):
        self.executor = MultiprocExecutor()
        self.running = set()

    async def images_generations(self, request_id):
        task = asyncio.create_task(self.executor.execute(request_id, steps=6))
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        try:
            return (await self.executor.wait_output_ready(request_id)).output
        except asyncio.CancelledError:
            self.executor.abort(request_id)
            raise


async def client(server, number):
    request = asyncio.create_task(server.images_generations(f"img-{number}"))
    if number % 5:  # the page was closed
        await asyncio.sleep(0)
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        return None
    return (await request).mean().item()


async def main():
    server = APIServer()
    for number in range(48):
        await client(server, number)
        while server.running:
            await asyncio.sleep(0)
        if number % 8 == 7:
            kept = [output.output.nbytes for output in server.executor._completed_outputs.values()]
            print(f"{number + 1} requests: {len(kept)} pictures, {sum(kept) / 2**20:.1f} MiB", flush=True)


asyncio.run(main())
