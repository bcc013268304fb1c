"""Declarations shared by several families: base classes with bounds, preprocessing, views; no torch, no algorithms.

One frozen dataclass for each attack, corruption, mechanism, backbone, dataset; several a file, by family.
"""
