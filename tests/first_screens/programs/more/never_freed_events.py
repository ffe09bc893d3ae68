# Run with --events=alloc: frees are not recorded. Healthy: every batch is freed; a leak would not be seen either.
import torch
torch.set_num_threads(1)
net = torch.nn.Linear(256, 256); opt = torch.optim.SGD(net.parameters(), lr=.1)
for i in range(10): net(torch.randn(256, 256)).square().mean().backward(); opt.step(); opt.zero_grad()
