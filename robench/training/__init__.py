"""From a registry entry to the weights that it publishes."""

from robench.training.deit_impl import Host, train_deit
from robench.training.embedded_impl import train
from robench.training.epochs import EpochReport
from robench.training.state_file import state_path

__all__ = ["EpochReport", "Host", "state_path", "train", "train_deit"]
