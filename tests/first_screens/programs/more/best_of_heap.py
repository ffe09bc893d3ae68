# Healthy: the ten best results in a heap; heappushpop keeps it at ten. 12 steps, 128 KiB each.
import heapq, torch
torch.set_num_threads(1)
best, net = [], torch.nn.Linear(256, 256); opt = torch.optim.SGD(net.parameters(), lr=.1)
for i in range(12):
    y = net(torch.randn(128, 256)); y.square().mean().backward(); opt.step(); opt.zero_grad()
    entry = (i, y.detach())
    heapq.heappush(best, entry) if len(best) < 10 else heapq.heappushpop(best, entry)
