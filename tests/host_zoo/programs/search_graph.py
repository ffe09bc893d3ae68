# kind: "host memory"
# cause: "The nodes of each search refer to each other, and the garbage collector is disabled."
# what: "Python objects"
# holder: []
# mebibytes: [75, 101]
# fixed: "The nodes of each search refer to each other, and the garbage collector frees them now and then."
import gc
import sys
import time

import torch

torch.set_num_threads(1)
IS_FIXED = "fixed" in sys.argv


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Node:
    def __init__(self, parent, number):
        self.parent = parent
        self.children = []
        self.visited = str(number).zfill(4000)  # BLAME
        if parent is not None:
            parent.children.append(self)


def search(model, number):
    root = Node(None, number)  # BLAME
    nodes = [root]
    for place in range(9):
        nodes.append(Node(nodes[place // 2], number + place))  # BLAME
    scores = model(torch.full((1, 16), len(root.children) / 16))
    return scores.argmax().item(), sum(len(node.visited) for node in nodes)


@torch.no_grad()
def main():
    if not IS_FIXED:
        gc.disable()  # no pauses while requests wait
    model = torch.nn.Linear(16, 16)
    model(torch.ones(1, 16))
    start = resident()
    visited = 0
    for number in range(2300):
        visited += search(model, number)[1]
        time.sleep(0.0005)
    if IS_FIXED:
        print(f"{visited} characters were visited")
        visited = 0
    print(f"truth: {visited / 2**20:.1f} resident: {resident() - start:.1f}")


main()
