"""What each plug-in can be asked for: its fields and their bounds; no torch, no algorithm.

One frozen dataclass for each attack, corruption, mechanism, backbone, dataset; several a file, by family.
"""
