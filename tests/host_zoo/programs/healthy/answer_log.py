# kind: "healthy"
# cause: "A list of the module collects answers, and is written and emptied after each fifty of them."
# what: "Python objects"
# holder: []
# mebibytes: []
import os
import time

import torch

torch.set_num_threads(1)
ANSWERS = []


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


def answer(model, number):
    score = model(torch.full((1, 16), number / 2000)).sum().item()
    sentence = f"request {number} scored {score:.3f}; "
    return sentence * (44_000 // len(sentence))


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
        ANSWERS.append(answer(model, number))
        if len(ANSWERS) == 50:
            write_out(os.devnull)
        time.sleep(0.0006)
    kept = sum(len(text) for text in ANSWERS) / 2**20
    print(f"truth: {kept:.1f} resident: {resident() - start:.1f}")


main()
