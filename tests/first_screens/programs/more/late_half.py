# Without the launcher; msmemscope is imported after ten of thirty steps, which kept 256 KiB each, as all others do.
import torch
torch.set_num_threads(1)
net = torch.nn.Linear(256, 256); opt = torch.optim.SGD(net.parameters(), lr=.1); kept = []
def step():
    y = net(torch.randn(256, 256)); y.square().mean().backward(); opt.step(); opt.zero_grad(); kept.append(y.detach())
for i in range(10): step()
import msmemscope
msmemscope.config(output="out", device="cpu"); msmemscope.start()
for i in range(20): step(); msmemscope.step()
msmemscope.stop()
