# kind: "host memory"
# cause: "A C library returns copies made by strdup, which the caller never frees."
# what: "native memory"
# holder: []
# mebibytes: [90, 122]
# fixed: "A C library returns copies made by strdup, and the caller frees each."
import ctypes
import sys
import time

IS_FIXED = "fixed" in sys.argv

libc = ctypes.CDLL(None)
libc.strdup.restype = ctypes.c_void_p
libc.strdup.argtypes = [ctypes.c_char_p]
libc.free.argtypes = [ctypes.c_void_p]


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class PathNormalizer:
    def __init__(self):
        self.copied_bytes = 0

    def normalize(self, path):
        copy = libc.strdup(path)  # BLAME
        text = ctypes.string_at(copy)
        if IS_FIXED:
            libc.free(copy)
        else:
            self.copied_bytes += len(text) + 1
        return text.rstrip(b"/")


def main():
    normalizer = PathNormalizer()
    start = resident()
    longest = 0
    for number in range(3700):
        path = b"/data/%06d" % number * (2300 + number % 400)
        longest = max(longest, len(normalizer.normalize(path)))
        time.sleep(0.0008)
    print(f"the longest path has {longest} characters")
    print(f"truth: {normalizer.copied_bytes / 2**20:.1f} resident: {resident() - start:.1f}")


main()
