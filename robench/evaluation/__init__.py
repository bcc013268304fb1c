"""Measure a shard, the only place where model, data and perturbation meet: ``actions`` declares what is measured."""
