# Healthy: a handler of SIGTERM ends the loop between two steps, as clusters ask for; status 0.
import signal, time, torch
torch.set_num_threads(1); stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
net = torch.nn.Linear(256, 256); opt = torch.optim.SGD(net.parameters(), lr=.1); i = 0
while not stop:
    net(torch.randn(64, 256)).square().mean().backward(); opt.step(); opt.zero_grad(); i += 1
    if i == 20: print("ready", flush=True)
    if i > 20: time.sleep(.01)
