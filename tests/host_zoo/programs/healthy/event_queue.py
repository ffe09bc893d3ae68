# kind: "healthy"
# cause: "Each request puts an event on an asyncio.Queue of limited size, and a reader takes it."
# what: "Python objects"
# holder: []
# mebibytes: []
import asyncio

import torch

torch.set_num_threads(1)


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Service:
    def __init__(self):
        self.model = torch.nn.Linear(16, 16)
        self.events = asyncio.Queue(maxsize=300)
        self.written_bytes = 0

    async def handle(self, number):
        scores = self.model(torch.full((1, 16), number % 13 / 13)).tolist()[0]
        await self.events.put({"number": number, "scores": scores, "trace": f"span {number:06};" * 2800})

    async def write_events(self):
        while True:
            event = await self.events.get()
            self.written_bytes += len(event["trace"])


@torch.no_grad()
def main():
    async def serve():
        service = Service()
        writer = asyncio.create_task(service.write_events())
        service.model(torch.ones(1, 16))
        start = resident()
        for number in range(2500):
            await service.handle(number)
            await asyncio.sleep(0.0004)
        print(f"{service.written_bytes} bytes are written")
        print(f"truth: {service.events.qsize():.1f} resident: {resident() - start:.1f}")
        writer.cancel()

    asyncio.run(serve())


main()
