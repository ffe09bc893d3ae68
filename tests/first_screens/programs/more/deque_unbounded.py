# The other way round: a deque without maxlen that nobody empties is a leak, 128 KiB a step.
import collections, torch
torch.set_num_threads(1)
recent = collections.deque(); net = torch.nn.Linear(256, 256); opt = torch.optim.SGD(net.parameters(), lr=.1)
for i in range(20):
    y = net(torch.randn(128, 256)); y.square().mean().backward(); opt.step(); opt.zero_grad(); recent.append(y.detach())
