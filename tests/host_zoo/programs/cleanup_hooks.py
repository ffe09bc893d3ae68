# kind: "host memory"
# cause: "weakref.finalize keeps the arguments of its callback as long as the object lives, and all objects live on in a cache."
# what: "Python objects"
# holder: ["finalize", "clients"]
# mebibytes: [74, 100]
import time
import weakref

import torch

torch.set_num_threads(1)


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Client:
    def __init__(self, number):
        self.number = number


class Pool:
    def __init__(self):
        self.clients = {}
        self.session_bytes = 0

    def client(self, number):
        if number not in self.clients:
            self.clients[number] = client = Client(number)  # BLAME
            session = f"cookie-{number:06};".encode() * 2600  # BLAME
            self.session_bytes += len(session)
            weakref.finalize(client, self.close, session)  # BLAME
        return self.clients[number]

    @staticmethod
    def close(session):
        return len(session)


@torch.no_grad()
def main():
    model = torch.nn.Linear(16, 16)
    pool = Pool()
    model(torch.ones(1, 16))
    start = resident()
    for number in range(2500):
        model(torch.full((1, 16), float(pool.client(number).number)))
        time.sleep(0.0005)
    kept = pool.session_bytes / 2**20
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()
