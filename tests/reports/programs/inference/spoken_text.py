# report: "https://github.com/kyutai-labs/pocket-tts/pull/16"
# topic: "inference"
# kind: "growth"
# symptom: "memory grows the longer the text is that is being spoken, although generation happens inside no_grad"
# cause: "no_grad counts for its own thread only; the autoregressive generation was moved to a thread of its own, so the cache of keys and values carries the graph of all frames"
# devices: ["cpu", "npu"]
# memory: "1GiB"
# holder: ["state", "keys", "values"]
# mebibytes: [60, 115]
# remedy: "release"
# options: []
# fixed: True
import os
import queue
import sys
import threading

import torch
from torch import nn

DEV = os.environ.get("DEV", "cpu")
if DEV == "npu":
    import torch_npu  # noqa: F401

torch.set_num_threads(1)
torch.manual_seed(0)
LATENT, WIDTH, VOICE = 32, 512, 240


class FlowLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Linear(LATENT, WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.head = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, LATENT))

    def forward(self, latent, state):
        x = self.norm(self.embed(latent))
        state["keys"] = torch.cat([state["keys"], self.key(x)])  # BLAME
        state["values"] = torch.cat([state["values"], self.value(x)])  # BLAME
        weights = torch.softmax(self.query(x) @ state["keys"].T / WIDTH**0.5, dim=-1)
        return self.head(x + weights @ state["values"])


class TTSModel:
    def __init__(self):
        self.flow_lm = FlowLM().to(DEV)
        self.mimi = nn.Sequential(nn.Linear(LATENT, 512), nn.ReLU(), nn.Linear(512, 1920)).to(DEV)
        self.voice = {name: torch.randn(VOICE, WIDTH, device=DEV) for name in ("keys", "values")}

    def _autoregressive_generation(self, frames, latents):
        with torch.set_grad_enabled("fixed" not in sys.argv):
            state = dict(self.voice)
            latent = torch.zeros(1, LATENT, device=DEV)
            for _ in range(frames):
                latent = self.flow_lm(latent, state)  # BLAME
                latents.put(latent)
        latents.put(None)

    @torch.no_grad()
    def generate_audio_stream(self, frames):
        latents = queue.Queue(maxsize=4)
        thread = threading.Thread(target=self._autoregressive_generation, args=(frames, latents))
        thread.start()
        while (latent := latents.get()) is not None:
            yield self.mimi(latent).squeeze(0).cpu()
        thread.join()


def main():
    model = TTSModel()
    samples = 0
    for number, chunk in enumerate(model.generate_audio_stream(frames=90)):
        samples += len(chunk)
        if number % 15 == 14:
            used = f", {torch.npu.memory_allocated() / 2**20:.1f} MiB in use" if DEV == "npu" else ""
            print(f"{samples / 24000:.1f} seconds of speech{used}", flush=True)


main()
