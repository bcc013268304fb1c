"""Layers of robench, whose order its imports and the way of a model keep."""

# Top to bottom. Names on one line never import each other.
LAYERS = [
    {"__main__"},
    {"pytest_plugin"},
    {"cli", "api", "testing"},
    {"figures"},
    {"reproduction"},
    {"runs", "leaderboard", "papers"},
    {"comparison", "exports"},
    {"declare", "scheduling", "executors", "reports"},
    {"evaluation", "training", "costs", "analyses"},
    {"models", "datasets", "perturbations", "metrics", "store"},
    {"attention", "attacks", "corruptions"},
    {"tasks"},
    {"draws"},
    {"environments"},
    {"devices"},
    {"domains"},
    {"declarations"},
    {"core"},
]
RANK = {name: depth for depth, layer in enumerate(LAYERS) for name in layer}
