# report: "https://github.com/areal-project/AReaL/issues/1209"
# topic: "distributed"
# kind: "leak"
# symptom: "resident memory of the workers grows linearly with the samples processed, until a long training crashes because host memory cannot be allocated"
# cause: "the cache of fetched shards, _fetch_buffer, grows without bound; the clean-up at the end of a step evicts shards from the owner's _storage only"
# devices: ["cpu"]
# holder: ["_fetch_buffer"]
# mebibytes: [55, 80]
# remedy: "release"
# options: []
# fixed: True
import os
import sys

import torch
import torch.distributed as dist
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
_storage = {}
_fetch_buffer = {}


class RTensor:
    """A tensor whose shards live on the workers that made them, and are fetched by those that need them."""

    counter = 0

    def __init__(self, shape, shard_ids, owners):
        self.shape, self.shard_ids, self.owners = shape, shard_ids, owners

    @classmethod
    def remotize(cls, tensor):
        cls.counter += 1
        shard_id = f"{dist.get_rank()}/{cls.counter}"
        _storage[shard_id] = tensor
        shard_ids = [None] * dist.get_world_size()
        dist.all_gather_object(shard_ids, shard_id)
        return cls(tensor.shape, shard_ids, list(range(dist.get_world_size())))

    def localize(self):
        for shard_id, owner in zip(self.shard_ids, self.owners, strict=True):
            if shard_id not in _fetch_buffer:
                received = _storage[shard_id] if owner == dist.get_rank() else torch.empty(self.shape)
                received = received.clone()  # BLAME
                dist.broadcast(received, src=owner)
                _fetch_buffer[shard_id] = received  # BLAME
        return torch.cat([_fetch_buffer[shard_id] for shard_id in self.shard_ids])


def clear_batch(batch):
    for rtensor in batch:
        for shard_id in rtensor.shard_ids:
            _storage.pop(shard_id, None)
            if "fixed" in sys.argv:
                _fetch_buffer.pop(shard_id, None)


def rollout(samples=16):
    return [RTensor.remotize(torch.randn(samples, 3, 112, 112)), RTensor.remotize(torch.randn(samples, 64))]


def main():
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29642"}
    dist.init_process_group("gloo", rank=0, world_size=1)
    actor = nn.Sequential(nn.Conv2d(3, 16, 16, stride=16), nn.Flatten(), nn.Linear(16 * 49, 64))
    optimizer = torch.optim.AdamW(actor.parameters(), lr=1e-4)
    for step in range(30):
        batch = rollout()
        pictures, advantages = (rtensor.localize() for rtensor in batch)
        loss = -(torch.tanh(actor(pictures)) * advantages).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clear_batch(batch)
        if step % 6 == 5:
            rss = int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
            print(f"step {step}: loss {loss.item():.4f}, {len(_storage)} shards stored, {rss:.0f} MiB", flush=True)
    dist.destroy_process_group()


main()
