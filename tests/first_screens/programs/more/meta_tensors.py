# torch, and tensors on the meta device alone: no memory is used. Nothing to record.
import torch
with torch.device("meta"): net = torch.nn.Linear(4096, 4096)
print(net(torch.empty(8, 4096, device="meta")).shape)
