# Healthy: queue.Queue(maxsize=20) fills during the 12 steps of a warm-up; the consumer starts afterwards. 128 KiB each.
import queue, torch
torch.set_num_threads(1)
waiting = queue.Queue(maxsize=20); net = torch.nn.Linear(256, 256); opt = torch.optim.SGD(net.parameters(), lr=.1)
for i in range(12):
    y = net(torch.randn(128, 256)); y.square().mean().backward(); opt.step(); opt.zero_grad(); waiting.put(y.detach())
while not waiting.empty(): waiting.get().sum()
