# A service on asyncio that goes on: each reply stays in a dict of sessions, 64 KiB. It is asked while it runs, then ended.
import asyncio, sys, torch
torch.set_num_threads(1)
model = torch.nn.Linear(64, 64); sessions = {}
async def reply(i):
    with torch.inference_mode(): sessions[i] = model(torch.randn(256, 64))
    await asyncio.sleep(0)
async def main():
    for i in range(200): await reply(i)
    print("ready", flush=True)
    await asyncio.sleep(100)
asyncio.run(main())
