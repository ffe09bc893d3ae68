# Healthy: lru_cache(maxsize=32) of embeddings, 64 KiB each; 20 texts are seen, as many as steps. It fills, and has a bound.
import functools, torch
torch.set_num_threads(1)
table = torch.nn.Embedding(1000, 128); net = torch.nn.Linear(128, 8); opt = torch.optim.SGD(net.parameters(), lr=.1)
@functools.lru_cache(maxsize=32)
def embedded(text):
    with torch.no_grad(): return table(torch.arange(128) + text)
for i in range(20): net(embedded(i)).square().mean().backward(); opt.step(); opt.zero_grad()
