"""From a registry entry to the weights that it publishes."""

from robench.training.train import EpochReport, train

__all__ = ["EpochReport", "train"]
