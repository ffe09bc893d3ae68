# Two epochs, each marked as one step; 4 MiB of predictions are kept of each. Too few steps to judge.
import msmemscope, torch
torch.set_num_threads(1)
net = torch.nn.Linear(64, 64); kept = {}
for epoch in range(2):
    with torch.no_grad(): kept[epoch] = torch.cat([*map(net, map(torch.randn, [256] * 64, [64] * 64))])
    msmemscope.step()
