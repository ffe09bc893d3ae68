# Healthy: experience replay with a capacity of 50, of which 16 steps fill 16; each has observation and next observation, 64 KiB each.
import random, torch
torch.set_num_threads(1)
class ReplayBuffer:
    def __init__(self, capacity): self.capacity, self.memory, self.position = capacity, [], 0
    def push(self, *transition):
        if len(self.memory) < self.capacity: self.memory.append(None)
        self.memory[self.position] = transition; self.position = (self.position + 1) % self.capacity
    def sample(self): return random.choice(self.memory)
buffer = ReplayBuffer(50); net = torch.nn.Linear(128, 128); opt = torch.optim.SGD(net.parameters(), lr=.1); state = torch.randn(128, 128)
for i in range(16):
    with torch.no_grad(): after = net(state)
    buffer.push(state, after); state = torch.randn(128, 128)
    net(buffer.sample()[0]).square().mean().backward(); opt.step(); opt.zero_grad()
