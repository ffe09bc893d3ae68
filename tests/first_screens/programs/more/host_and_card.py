# 512 KiB a step leak on the host, 2 MiB a step on the card.
import torch, torch_npu, msmemscope
on_host, on_card = [], []
for i in range(8):
    x = torch.ones(1 << 17); on_host.append(x); on_card.append(torch.zeros(1 << 19, device="npu:0")); msmemscope.step()
