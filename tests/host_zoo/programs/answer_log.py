# kind: "host memory"
# cause: "A list of the module collects each answer for a report that nobody writes."
# what: "Python objects"
# holder: ["ANSWERS"]
# mebibytes: [78, 106]
# fixed: "A list of the module collects answers, and is written and emptied after each fifty of them."
import os
import sys
import time

import torch

torch.set_num_threads(1)
IS_FIXED = "fixed" in sys.argv
ANSWERS = []


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


def answer(model, number):
    score = model(torch.full((1, 16), number / 2000)).sum().item()
    sentence = f"request {number} scored {score:.3f}; "
    return sentence * (44_000 // len(sentence))  # BLAME


def write_out(path):
    with open(path, "a") as file:
        file.writelines(ANSWERS)
    ANSWERS.clear()


@torch.no_grad()
def main():
    model = torch.nn.Linear(16, 16)
    model(torch.ones(1, 16))
    start = resident()
    for number in range(2200):
        ANSWERS.append(answer(model, number))  # BLAME
        if IS_FIXED and len(ANSWERS) == 50:
            write_out(os.devnull)
        time.sleep(0.0006)
    kept = sum(len(text) for text in ANSWERS) / 2**20
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()
