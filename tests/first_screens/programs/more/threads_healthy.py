# Healthy and goes on: a pool of two threads answers 200 requests and keeps nothing. It is asked while it runs.
import time, torch
from concurrent.futures import ThreadPoolExecutor
torch.set_num_threads(1)
model = torch.nn.Linear(64, 256)
def answer(i):
    with torch.inference_mode(): return model(torch.randn(64, 64)).sum().item()
with ThreadPoolExecutor(2) as pool: print(sum(pool.map(answer, range(200))) != 0)
print("ready", flush=True); time.sleep(100)
