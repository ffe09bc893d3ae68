# Prints its usage and ends with 2 before torch is imported.
import argparse
p = argparse.ArgumentParser(); p.add_argument("--data", required=True); p.parse_args()
import torch
torch.ones(1 << 20)
