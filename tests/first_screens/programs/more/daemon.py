# Forks twice, as daemons do; the one that is started ends at once, the daemon works on for some seconds and leaks 256 KiB a request.
import os, sys, time
if os.fork(): print("started"); sys.stdout.flush(); os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
for fd in (0, 1, 2): os.dup2(os.open(os.devnull, os.O_RDWR), fd)
import torch
torch.set_num_threads(1); kept = []
for i in range(300): kept.append(torch.ones(1 << 16)); time.sleep(0.02)
