"""Small network from points of the plane to heights.

``python -m robench_example_plugin.network_impl FILE`` trains it and writes its weights.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from robench_example_plugin.hill_impl import heights


def hill_network(width: int = 32) -> nn.Module:
    """Return the network, untrained: points (B, 2) in, heights (B, 1) out."""
    return nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))


def trained(num_steps: int = 2000) -> nn.Module:
    """Return the network after the given number of training steps, on points outside the dataset."""
    torch.manual_seed(1)
    network = hill_network()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.003)
    for _ in range(num_steps):
        points = 2 * torch.rand(256, 2) - 1
        loss = (network(points)[:, 0] - heights(points)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network


if __name__ == "__main__":
    save_file(trained().state_dict(), Path(sys.argv[1]))
