# kind: "host memory"
# cause: "A C++ extension has a vector of all texts that it has indexed."
# what: "native memory"
# holder: []
# mebibytes: [77, 104]
# fixed: "A C++ extension has a vector of texts, and forgets the oldest half when it has three hundred."
import ctypes
import subprocess
import sys
import tempfile
import time

import torch

torch.set_num_threads(1)
IS_FIXED = "fixed" in sys.argv
SOURCE = """
#include <string>
#include <vector>
static std::vector<std::string> texts;
extern "C" void index_text(const char* text, long length) { texts.emplace_back(text, length); }
extern "C" void forget() { if (texts.size() == 300) texts.erase(texts.begin(), texts.begin() + 150); }
extern "C" long indexed_bytes() { long sum = 0; for (auto& text : texts) sum += text.size(); return sum; }
"""


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


def build(folder):
    library = f"{folder}/libtokenindex.so"
    with open(f"{folder}/index.cpp", "w") as file:
        file.write(SOURCE)
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", file.name, "-o", library], check=True)
    index = ctypes.CDLL(library)
    index.index_text.argtypes = [ctypes.c_char_p, ctypes.c_long]
    index.indexed_bytes.restype = ctypes.c_long
    return index


@torch.no_grad()
def main():
    model = torch.nn.Linear(16, 16)
    model(torch.ones(1, 16))
    with tempfile.TemporaryDirectory() as folder:
        index = build(folder)
    start = resident()
    for number in range(2000):
        text = b"%07d the quick brown fox " % number * 1700
        model(torch.full((1, 16), len(text) / 50_000))
        if IS_FIXED:
            index.forget()
        index.index_text(text, len(text))  # BLAME
        time.sleep(0.0005)
    print(f"truth: {index.indexed_bytes() / 2**20:.1f} resident: {resident() - start:.1f}")


main()
