# 1 MB a step leaks on npu:0 in a list, 3 MB a step on npu:1 in a dict, at different lines. True: 8 blocks each, 8 and 24 MB.
import torch, torch_npu, msmemscope
first, second = [], {}
for i in range(8):
    first.append(torch.empty(1_000_000, dtype=torch.uint8, device="npu:0"))
    second[i] = torch.empty(3_000_000, dtype=torch.uint8, device="npu:1")
    msmemscope.step()
