# kind: "healthy"
# cause: "Each client gets a thread that touches much of its stack, and is joined when the client leaves."
# what: "threads"
# holder: []
# mebibytes: []
import re
import threading
import time
from collections import deque


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


def depth_of(text):
    """Recursion in C, which takes some hundred KiB of the stack."""
    nested = []
    for _ in range(400):
        nested = [nested]
    return len(re.findall(r"\[", repr(nested))) + len(text)


class HeartbeatServer:
    def __init__(self, most_clients=20):
        self.clients = deque()
        self.most_clients = most_clients

    def beat(self, number, stop):
        depth_of(f"client {number}")
        stop.wait()

    def connect(self, number):
        stop = threading.Event()
        thread = threading.Thread(target=self.beat, args=(number, stop))
        thread.start()
        self.clients.append((thread, stop))
        if len(self.clients) > self.most_clients:
            self.disconnect()

    def disconnect(self):
        thread, stop = self.clients.popleft()
        stop.set()
        thread.join()


def main():
    server = HeartbeatServer()
    start = resident()
    for number in range(900):
        server.connect(number)
        time.sleep(0.003)
    print(f"truth: 0.0 resident: {resident() - start:.1f}", flush=True)
    while server.clients:
        server.disconnect()


main()
