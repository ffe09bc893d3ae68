# report: "https://github.com/raullenchai/Rapid-MLX/pull/699"
# topic: "serving"
# kind: "leak"
# symptom: "after some long requests the resident memory doubles and latency explodes, though each request ended with a finish reason"
# cause: "a for loop does not close a generator that it leaves early; the frame of stream_diffusion_generate, with its denoising state, waits for the garbage collector in a cycle, and gen.close() lets it go at once"
# devices: ["cpu", "npu"]
# memory: "1GiB"
# holder: ["noise_schedule", "logits", "canvas", "stream_diffusion_generate", "frame", "session", "cycle"]
# mebibytes: [35, 60]
# remedy: "release"
# options: []
# fixed: True
import os
import sys

import torch
from torch import nn

DEV = os.environ.get("DEV", "cpu")
if DEV == "npu":
    import torch_npu  # noqa: F401

torch.set_num_threads(1)
torch.manual_seed(0)
VOCABULARY, WIDTH = 2048, 256


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.mix, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, canvas):
        return self.head(torch.tanh(self.mix(self.embedding(canvas))))


class DenoiseSession:
    """Tells a running generation what the caller wants; knows the generation in turn."""

    def __init__(self):
        self.stream, self.finish_reason = None, None


def stream_diffusion_generate(model, prompt, max_tokens, session):
    canvas = torch.cat([prompt, torch.zeros(max_tokens, dtype=torch.long, device=DEV)])
    noise_schedule = torch.rand(8, len(canvas), 64, device=DEV)  # BLAME
    for block in range(8):
        logits = model(canvas)  # BLAME
        canvas = logits.argmax(-1)
        keep = noise_schedule[block].mean(-1) > 0.4
        canvas = torch.where(keep, canvas, 0)
        session.finish_reason = "stop" if block == 2 else None
        yield canvas[len(prompt) : len(prompt) + 16 * (block + 1)].tolist()


class DiffusionEngine:
    def __init__(self):
        self.model = Denoiser().to(DEV).eval()

    @torch.inference_mode()
    def _run_generator(self, prompt, max_tokens):
        session = DenoiseSession()
        session.stream = stream_diffusion_generate(self.model, prompt, max_tokens, session)
        try:
            for result in session.stream:
                if session.finish_reason:
                    return result, session.finish_reason
        finally:
            if "fixed" in sys.argv:
                session.stream.close()
        return result, "length"


def main():
    engine = DiffusionEngine()
    for number in range(24):
        prompt = torch.randint(1, VOCABULARY, (16 + number % 5,), device=DEV)
        words, reason = engine._run_generator(prompt, max_tokens=256)
        if number % 4 == 3:
            used = f", {torch.npu.memory_allocated() / 2**20:.1f} MiB in use" if DEV == "npu" else ""
            print(f"request {number}: {len(words)} tokens, {reason}{used}", flush=True)


main()
