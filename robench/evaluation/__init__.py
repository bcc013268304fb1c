"""Measurement of shards, the only place that combines model, data and perturbation."""
