# A search tree without steps: each of 600 nodes keeps its board, 16 KiB; nothing is ever pruned. argv "ok": the children are dropped.
import sys, torch
torch.set_num_threads(1)
class Node:
    def __init__(self, board): self.board, self.children = board, []
root = Node(torch.zeros(4096)); here = root
for move in range(600):
    child = Node(here.board + 1)
    if "ok" in sys.argv: here = child
    else: root.children.append(child); here = child
print(here.board[0].item())
