"""Reading ahead: what comes next is begun as soon as a batch has been read, and no example is another one."""

import torch
from classified_examples import Examples, ReadingAhead

from robench.evaluation.evaluator import ReadAhead
from robench.perturbations.clean import Clean

SHAPE = 3, 2, 2


def test_the_batches_of_a_shard_and_then_what_follows_are_read_ahead() -> None:
    dataset, other = ReadingAhead(60, SHAPE, num_classes=3), ReadingAhead(40, SHAPE, num_classes=3)
    reading = ReadAhead(dataset, dataset.shard(Clean(), 10, 35), lambda: (other, 5, 15))
    for start, stop in ((10, 20), (20, 30), (30, 35)):
        reading.batch(start, stop)
    # The last batch of a shard is shorter.
    assert dataset.calls == [(10, 20), "ahead", (20, 30), (20, 30), "ahead", (30, 35), (30, 35)]
    assert other.calls == ["ahead", (5, 15)]


def test_nothing_is_read_past_the_end_where_nothing_follows() -> None:
    dataset = ReadingAhead(60, SHAPE, num_classes=3)
    ReadAhead(dataset, dataset.shard(Clean(), 0, 10), lambda: None).batch(0, 10)
    assert dataset.calls == [(0, 10)]


def test_a_dataset_that_cannot_read_ahead_is_passed_through() -> None:
    dataset = Examples(20, SHAPE, num_classes=3)
    reading = ReadAhead(dataset, dataset.shard(Clean(), 0, 20), lambda: (dataset, 0, 10))
    assert len(reading) == 20
    assert reading.identity == dataset.identity
    assert torch.equal(reading[3][0], dataset[3][0])
    for start, stop in ((0, 10), (10, 20)):
        found, wanted = reading.batch(start, stop), dataset.batch(start, stop)
        assert found.ids == wanted.ids
        assert torch.equal(found.inputs, wanted.inputs)
        assert torch.equal(found.targets, wanted.targets)
