# kind: "host memory"
# cause: "Each request puts an event on an asyncio.Queue, and its reader was never started."
# what: "Python objects"
# holder: ["events"]
# mebibytes: [68, 92]
import asyncio

import torch

torch.set_num_threads(1)


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Service:
    def __init__(self):
        self.model = torch.nn.Linear(16, 16)
        self.events = asyncio.Queue()
        self.sent_bytes = 0

    async def handle(self, number):
        scores = self.model(torch.full((1, 16), number % 13 / 13)).tolist()[0]
        event = {"number": number, "scores": scores, "trace": f"span {number:06};" * 2800}  # BLAME
        self.sent_bytes += len(event["trace"])
        await self.events.put(event)  # BLAME


@torch.no_grad()
def main():
    async def serve():
        service = Service()
        service.model(torch.ones(1, 16))
        start = resident()
        for number in range(2500):
            await service.handle(number)
            await asyncio.sleep(0.0004)
        kept = service.sent_bytes / 2**20
        print(f"{service.events.qsize()} events wait")
        print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")

    asyncio.run(serve())


main()
