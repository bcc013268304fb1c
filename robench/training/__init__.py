"""From a registry entry to the weights that it publishes."""

from robench.training.deit import Host, train_deit
from robench.training.epochs import EpochReport
from robench.training.state_file import state_path
from robench.training.train import train

__all__ = ["EpochReport", "Host", "state_path", "train", "train_deit"]
