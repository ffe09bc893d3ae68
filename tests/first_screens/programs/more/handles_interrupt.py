# Leaks 256 KiB a step, catches KeyboardInterrupt, says so and ends with status 0. It gets SIGINT, or SIGTERM, which it does not catch.
import time, torch
torch.set_num_threads(1)
net = torch.nn.Linear(256, 256); opt = torch.optim.SGD(net.parameters(), lr=.1); kept = []
try:
    for i in range(20):
        y = net(torch.randn(256, 256)); y.square().mean().backward(); opt.step(); opt.zero_grad(); kept.append(y.detach())
    print("ready", flush=True); time.sleep(100)
except KeyboardInterrupt: print("saving a checkpoint", flush=True)
