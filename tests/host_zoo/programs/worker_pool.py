# kind: "healthy"
# cause: "Each request starts four threads that work on a buffer each, and joins them."
# what: "threads"
# holder: []
# mebibytes: []
import threading
import time
import zlib


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Compressor:
    def __init__(self):
        self.written_bytes = 0
        self.lock = threading.Lock()

    def compress(self, part):
        packed = zlib.compress(part, 1)
        with self.lock:
            self.written_bytes += len(packed)

    def handle(self, number):
        parts = [b"%d,%d;" % (number, place) * 4000 for place in range(4)]
        threads = [threading.Thread(target=self.compress, args=(part,)) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def main():
    compressor = Compressor()
    start = resident()
    for number in range(1200):
        compressor.handle(number)
        time.sleep(0.0006)
    print(f"{compressor.written_bytes} bytes were written")
    print(f"truth: 0.0 resident: {resident() - start:.1f}")


main()
