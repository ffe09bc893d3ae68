# Without the launcher; a thread for diagnosis imports and starts msmemscope while the main thread trains and leaks 256 KiB a step.
import threading, torch
torch.set_num_threads(1)
net = torch.nn.Linear(256, 256); opt = torch.optim.SGD(net.parameters(), lr=.1); kept = []
started = threading.Event()
def diagnose():
    import msmemscope
    msmemscope.config(output="out", device="cpu"); msmemscope.start(); started.set()
thread = threading.Thread(target=diagnose)
for i in range(30):
    if i == 5: thread.start(); started.wait(); thread.join()
    y = net(torch.randn(256, 256)); y.square().mean().backward(); opt.step(); opt.zero_grad(); kept.append(y.detach())
