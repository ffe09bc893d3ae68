# kind: "host memory"
# cause: "Each request puts an event on an asyncio.Queue, and its reader was never started."
# what: "Python objects"
# holder: ["events"]
# mebibytes: [68, 92]
# fixed: "Each request puts an event on an asyncio.Queue of limited size, and a reader takes it."
import asyncio
import sys

import torch

torch.set_num_threads(1)
IS_FIXED = "fixed" in sys.argv


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Service:
    def __init__(self):
        self.model = torch.nn.Linear(16, 16)
        self.events = asyncio.Queue(300 if IS_FIXED else 0)
        self.sent_bytes = 0

    async def handle(self, number):
        scores = self.model(torch.full((1, 16), number % 13 / 13)).tolist()[0]
        event = {"number": number, "scores": scores, "trace": f"span {number:06};" * 2800}  # BLAME
        self.sent_bytes += len(event["trace"])
        await self.events.put(event)  # BLAME

    async def write_events(self):
        while True:
            event = await self.events.get()
            self.sent_bytes -= len(event["trace"])


@torch.no_grad()
def main():
    async def serve():
        service = Service()
        writer = asyncio.create_task(service.write_events()) if IS_FIXED else None
        service.model(torch.ones(1, 16))
        start = resident()
        for number in range(2500):
            await service.handle(number)
            await asyncio.sleep(0.0004)
        kept = service.sent_bytes / 2**20
        print(f"{service.events.qsize()} events wait")
        print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")
        if writer is not None:
            writer.cancel()

    asyncio.run(serve())


main()
