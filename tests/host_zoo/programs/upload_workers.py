# kind: "host memory"
# cause: "The futures of all uploads stay in a list, each with its result."
# what: "Python objects"
# holder: ["futures"]
# mebibytes: [77, 104]
# fixed: "The futures of uploads leave the list when they are done."
import hashlib
import sys
import time
from concurrent.futures import ThreadPoolExecutor

IS_FIXED = "fixed" in sys.argv


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


def upload(number):
    packed = hashlib.sha256(b"%d" % number).digest() * 1100  # BLAME
    time.sleep(0.001)
    return packed


class Uploader:
    def __init__(self, workers=4):
        self.executor = ThreadPoolExecutor(workers)
        self.futures = []

    def submit(self, number):
        self.futures.append(self.executor.submit(upload, number))  # BLAME
        if IS_FIXED:
            self.futures = [future for future in self.futures if not future.done()]


def main():
    uploader = Uploader()
    start = resident()
    for number in range(2700):
        uploader.submit(number)
        time.sleep(0.0010)
    kept = sum(len(future.result()) for future in uploader.futures) / 2**20
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")
    uploader.executor.shutdown()


main()
