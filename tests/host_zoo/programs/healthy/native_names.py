# kind: "healthy"
# cause: "A C library returns copies made by strdup, and the caller frees each."
# what: "native memory"
# holder: []
# mebibytes: []
import ctypes
import time

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
        copy = libc.strdup(path)
        text = ctypes.string_at(copy)
        libc.free(copy)
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
    print(f"the longest path has {longest} characters, {normalizer.copied_bytes} bytes were copied")
    print(f"truth: 0.0 resident: {resident() - start:.1f}")


main()
