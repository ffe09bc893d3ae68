# A pipeline of generators without any optimizer: every prediction is kept in a class attribute. True: 120 blocks of 64 KiB.
import torch
torch.set_num_threads(1)
class Results:
    seen = []
def batches(n):
    for i in range(n): yield torch.randn(128, 128)
def predictions(model, source):
    with torch.inference_mode():
        for batch in source: yield model(batch)
model = torch.nn.Linear(128, 128)
for p in predictions(model, batches(120)): Results.seen.append(p)
