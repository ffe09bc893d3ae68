# kind: "healthy"
# cause: "A dict has one session per open request, and each is removed when its user leaves."
# what: "Python objects"
# holder: []
# mebibytes: []
import sys
import time


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class ChatServer:
    def __init__(self):
        self.sessions = {}

    def open_session(self, identifier):
        history = [identifier * 1000 + place for place in range(900)]
        self.sessions[identifier] = history
        return history

    def answer(self, identifier):
        history = self.open_session(identifier)
        return sum(history) % 97

    def close_session(self, identifier):
        self.sessions.pop(identifier, None)


def bytes_of(history):
    return sys.getsizeof(history) + 32 * len(history)  # an int takes 32 bytes of Python's allocator


def main():
    server = ChatServer()
    start = resident()
    checksum = 0
    for number in range(2600):
        checksum += server.answer(10_000 + number)
        server.close_session(10_000 + number - 40)
        time.sleep(0.0010)
    kept = sum(bytes_of(history) for history in server.sessions.values()) / 2**20
    print(f"checksum {checksum}")
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()
