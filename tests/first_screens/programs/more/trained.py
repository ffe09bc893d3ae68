# Leaks 256 KiB in each of 20 steps; its event log is damaged afterwards, in several ways.
import torch
torch.set_num_threads(1)
net = torch.nn.Linear(256, 256); opt = torch.optim.SGD(net.parameters(), lr=.1); kept = []
for i in range(20):
    y = net(torch.randn(256, 256)); y.square().mean().backward(); opt.step(); opt.zero_grad(); kept.append(y.detach())
