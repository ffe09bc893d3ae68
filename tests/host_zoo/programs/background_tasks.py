# kind: "host memory"
# cause: "Each request starts a task that waits for an event which never comes, and a set keeps the tasks."
# what: "Python objects"
# holder: ["background"]
# mebibytes: [73, 99]
# fixed: "Each request starts a task that ends soon, and leaves the set of tasks then."
import asyncio
import sys

IS_FIXED = "fixed" in sys.argv


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Notifier:
    def __init__(self):
        self.acknowledged = asyncio.Event()
        self.background = set()
        self.pending_bytes = 0

    async def deliver(self, number):
        message = str(number).zfill(36_000)  # BLAME
        self.pending_bytes += len(message)
        await (asyncio.sleep(0.01) if IS_FIXED else self.acknowledged.wait())
        self.pending_bytes -= len(message)

    def notify(self, number):
        task = asyncio.create_task(self.deliver(number))
        self.background.add(task)  # BLAME
        task.add_done_callback(self.background.discard)


async def serve():
    notifier = Notifier()
    start = resident()
    for number in range(2500):
        notifier.notify(number)
        await asyncio.sleep(0.0007)
    kept = notifier.pending_bytes / 2**20
    print(f"{len(notifier.background)} tasks wait")
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


def main():
    asyncio.run(serve())


main()
