# report: "https://github.com/karpathy/nanoGPT/pull/236"
# topic: "training"
# kind: "out of memory"
# symptom: "a large model trains from scratch, but resuming it from its checkpoint runs out of memory in the first forward pass"
# cause: "the checkpoint was mapped to the device and is still referenced after model and optimizer have loaded it; checkpoint = None frees it"
# devices: ["npu"]
# memory: "768MiB"
# holder: ["checkpoint"]
# mebibytes: [110, 370]
# remedy: "release"
# options: []
# fixed: True
import os
import sys
import tempfile

import torch
import torch_npu  # noqa: F401
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
device = "npu"
vocab_size, n_embd, n_layer, block_size, batch_size = 1024, 1084, 3, 256, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(n_embd)
        self.mlp = nn.Linear(n_embd, 4 * n_embd)
        self.proj = nn.Linear(4 * n_embd, n_embd)

    def forward(self, x):
        return x + self.proj(torch.relu(self.mlp(self.norm(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, n_embd)
        self.h = nn.ModuleList(Block() for _ in range(n_layer))
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)

    def forward(self, idx, targets):
        x = self.wte(idx)
        for block in self.h:
            x = block(x)
        return nn.functional.cross_entropy(self.lm_head(x[:, -32:]).flatten(0, 1), targets[:, -32:].flatten())


def get_batch(rows=batch_size, where=device):
    data = torch.randint(0, vocab_size, (rows, block_size + 1))
    return data[:, :-1].to(where), data[:, 1:].to(where)


def pretrain(path):
    """The run of yesterday, on another machine."""
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, foreach=False)
    model(*get_batch(1, "cpu")).backward()
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "iter_num": 1}, path)


out_dir = tempfile.mkdtemp()
ckpt_path = os.path.join(out_dir, "ckpt.pt")
pretrain(ckpt_path)

print(f"Resuming training from {out_dir}")
checkpoint = torch.load(ckpt_path, map_location=device)  # BLAME
os.remove(ckpt_path)
model = GPT()
model.load_state_dict(checkpoint["model"])
model.to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, foreach=False)
optimizer.load_state_dict(checkpoint["optimizer"])
iter_num = checkpoint["iter_num"]
if "fixed" in sys.argv:
    checkpoint = None

X, Y = get_batch()
while iter_num < 4:
    print(f"iter {iter_num}: {torch.npu.memory_allocated() / 2**20:.0f} MiB in use", flush=True)
    loss = model(X, Y)
    X, Y = get_batch()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print(f"iter {iter_num}: loss {loss.item():.4f}", flush=True)
    iter_num += 1
