# Pipeline over two cards: what the first one sends is kept on the second, 1 MiB a step. Nothing leaks on npu:0.
import torch, torch_npu
a, b = torch.nn.Linear(256, 1024).to("npu:0"), torch.nn.Linear(1024, 8).to("npu:1")
opt = torch.optim.SGD([*a.parameters(), *b.parameters()], lr=.1); seen = []
for i in range(10):
    hidden = a(torch.randn(256, 256, device="npu:0")).to("npu:1"); b(hidden).square().mean().backward(); opt.step(); opt.zero_grad()
    seen.append(hidden.detach())
