# kind: "healthy"
# cause: "The nodes of each search refer to each other, and the garbage collector frees them now and then."
# what: "Python objects"
# holder: []
# mebibytes: []
import time

import torch

torch.set_num_threads(1)


def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20


class Node:
    def __init__(self, parent, number):
        self.parent = parent
        self.children = []
        self.visited = str(number).zfill(4000)
        if parent is not None:
            parent.children.append(self)


def search(model, number):
    root = Node(None, number)
    nodes = [root]
    for place in range(9):
        nodes.append(Node(nodes[place // 2], number + place))
    scores = model(torch.full((1, 16), len(root.children) / 16))
    return scores.argmax().item(), sum(len(node.visited) for node in nodes)


@torch.no_grad()
def main():
    model = torch.nn.Linear(16, 16)
    model(torch.ones(1, 16))
    start = resident()
    visited = 0
    for number in range(2300):
        visited += search(model, number)[1]
        time.sleep(0.0005)
    print(f"{visited} characters were visited")
    print(f"truth: 0.0 resident: {resident() - start:.1f}")


main()
