# Healthy: an OrderedDict as a cache of 16 that throws out the oldest; steps: argv[1] (10: still filling, 40: full since step 17). 128 KiB each.
import collections, sys, torch
torch.set_num_threads(1)
class Cache(collections.OrderedDict):
    capacity = 16
    def put(self, key, value):
        self[key] = value; self.move_to_end(key)
        if len(self) > self.capacity: self.popitem(last=False)
cache = Cache(); net = torch.nn.Linear(256, 256); opt = torch.optim.SGD(net.parameters(), lr=.1)
for i in range(int(sys.argv[1])):
    y = net(torch.randn(128, 256)); y.square().mean().backward(); opt.step(); opt.zero_grad(); cache.put(i, y.detach())
