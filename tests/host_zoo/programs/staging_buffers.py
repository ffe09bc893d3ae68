# kind: "host memory"
# cause: "A client registers a staging buffer with its driver for each transfer, and gives none back."
# what: "Python objects"
# holder: ["registered"]
# mebibytes: [95, 115]
# fixed: "A client registers a staging buffer with its driver for each transfer, and gives it back behind it."
import ctypes
import sys
import time

IS_FIXED = "fixed" in sys.argv
SIZE = 100 << 10


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Driver:
    def __init__(self):
        self.registered = {}

    def stage(self, number, content):
        buffer = ctypes.create_string_buffer(SIZE)  # BLAME
        ctypes.memmove(buffer, content, SIZE)
        self.registered[number] = buffer
        return ctypes.addressof(buffer)

    def finish(self, number):
        if IS_FIXED:
            del self.registered[number]


def main():
    driver, content = Driver(), bytes(range(256)) * (SIZE // 256)
    start, most = resident(), 0.0
    for number in range(1050):
        driver.stage(number, content)
        driver.finish(number)
        time.sleep(0.003)
        most = max(most, resident())
    kept = sum(ctypes.sizeof(buffer) for buffer in driver.registered.values()) / 2**20
    print(f"truth: {kept:.1f} resident: {most - start:.1f}")


main()
