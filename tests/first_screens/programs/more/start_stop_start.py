# Without the launcher; collected twice, five steps each, a leak of 1 MiB a step before, between and in both.
import torch, msmemscope
torch.set_num_threads(1)
msmemscope.config(output="out", device="cpu"); kept = []
def steps(n):
    for i in range(n): kept.append(torch.ones(1 << 18)); torch.neg(kept[-1][:8]); msmemscope.step()
steps(3); msmemscope.start(); steps(5); msmemscope.stop(); steps(4); msmemscope.start(); steps(5); msmemscope.stop()
