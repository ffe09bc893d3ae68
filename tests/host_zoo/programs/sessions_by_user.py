# kind: "host memory"
# cause: "A dict has one session per request identifier, and no session is ever removed."
# what: "Python objects"
# holder: ["sessions"]
# mebibytes: [77, 104]
# fixed: "A dict has one session per open request, and each is removed when its user leaves."
import sys
import time

IS_FIXED = "fixed" in sys.argv


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class ChatServer:
    def __init__(self):
        self.sessions = {}

    def open_session(self, identifier):
        history = [identifier * 1000 + place for place in range(900)]  # BLAME
        self.sessions[identifier] = history  # BLAME
        return history

    def answer(self, identifier):
        history = self.open_session(identifier)
        return sum(history) % 97


def bytes_of(history):
    return sys.getsizeof(history) + 32 * len(history)  # an int takes 32 bytes of Python's allocator


def main():
    server = ChatServer()
    start = resident()
    checksum = 0
    for number in range(2600):
        checksum += server.answer(10_000 + number)
        if IS_FIXED:
            server.sessions.pop(10_000 + number - 40, None)
        time.sleep(0.0010)
    kept = sum(bytes_of(history) for history in server.sessions.values()) / 2**20
    print(f"checksum {checksum}")
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()
