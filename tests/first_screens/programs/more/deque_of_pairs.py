# Healthy: deque(maxlen=12) of dictionaries in an object; it fills during the 9 steps. 128 KiB each.
import collections, torch
torch.set_num_threads(1)
class History:
    def __init__(self): self.recent = collections.deque(maxlen=12)
h = History(); net = torch.nn.Linear(256, 256); opt = torch.optim.SGD(net.parameters(), lr=.1)
for i in range(9):
    y = net(torch.randn(128, 256)); y.square().mean().backward(); opt.step(); opt.zero_grad(); h.recent.append({"step": i, "out": y.detach()})
