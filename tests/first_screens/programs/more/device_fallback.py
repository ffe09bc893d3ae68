# Wants an accelerator and falls back to the CPU; leaks 256 KiB a step there. Run with --device=npu on a machine without one.
import torch
torch.set_num_threads(1)
device = "cuda" if torch.cuda.is_available() else "cpu"
net = torch.nn.Linear(256, 256, device=device); opt = torch.optim.SGD(net.parameters(), lr=.1); kept = []
for i in range(10):
    y = net(torch.randn(256, 256, device=device)); y.square().mean().backward(); opt.step(); opt.zero_grad(); kept.append(y.detach())
