# Healthy: a ring of 24 places, of which 14 are filled in 14 steps; 128 KiB each.
import torch
torch.set_num_threads(1)
class Ring:
    def __init__(self, size): self.places, self.next = [None] * size, 0
    def put(self, x): self.places[self.next % len(self.places)] = x; self.next += 1
ring = Ring(24); net = torch.nn.Linear(256, 256); opt = torch.optim.SGD(net.parameters(), lr=.1)
for i in range(14):
    y = net(torch.randn(128, 256)); y.square().mean().backward(); opt.step(); opt.zero_grad(); ring.put(y.detach())
