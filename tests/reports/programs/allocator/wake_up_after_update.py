# report: "https://github.com/verl-project/verl/pull/6912"
# topic: "reinforcement learning"
# kind: "reserved"
# symptom: "waking up the inference engine for the next rollout fails for lack of memory although the trainer's tensors are gone by then"
# cause: "the trainer's caching allocator still holds the pages of freed tensors, so the driver cannot give them to the engine's own arena; emptying the cache first repairs it"
# devices: ["npu"]
# memory: "1GiB"
# holder: []
# mebibytes: [240, 420]
# remedy: "release"
# options: []
# fixed: True
import ctypes
import sys

import torch
import torch_npu  # noqa: F401
from torch import nn

torch.set_num_threads(1)
acl = ctypes.CDLL("libascendcl.so")


class RolloutEngine:
    """An engine that asks the driver itself for its cache of keys and values."""

    def __init__(self, mebibytes):
        self.size, self.arena = mebibytes << 20, ctypes.c_void_p()

    def wake_up(self):
        code = acl.aclrtMalloc(ctypes.byref(self.arena), ctypes.c_size_t(self.size), 0)  # BLAME
        if code:
            free = torch.npu.mem_get_info()[0] / 2**20
            print(f"wake up: error {code}, {free:.0f} MiB free by the driver", flush=True)
            raise RuntimeError(f"no {self.size >> 20} MiB for the cache of keys and values")

    def sleep(self):
        acl.aclrtFree(self.arena)

    @torch.no_grad()
    def rollout(self, actor, prompts):
        return torch.cat([actor(prompt.to("npu")).argmax(1) for prompt in prompts])


def update(actor, optimizer, samples):
    states = torch.randn(samples, 512).to("npu")
    advantage = actor(states)  # BLAME
    advantage.square().mean().backward()  # BLAME
    optimizer.step()
    optimizer.zero_grad()


def main():
    actor = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512), nn.GELU(), nn.Linear(512, 64)).to(
        "npu"
    )
    optimizer = torch.optim.SGD(actor.parameters(), lr=1e-3)
    engine = RolloutEngine(540)
    for step in range(4):
        if "fixed" in sys.argv:
            torch.npu.empty_cache()
        engine.wake_up()
        answers = engine.rollout(actor, torch.randn(4, 16, 512))
        engine.sleep()
        update(actor, optimizer, samples=8192)
        used, reserved = torch.npu.memory_allocated() / 2**20, torch.npu.memory_reserved() / 2**20
        print(f"step {step}: {len(answers)} answers, {used:.0f} MiB in use, {reserved:.0f} MiB reserved", flush=True)


main()
