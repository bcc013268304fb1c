"""Images with masks of several sizes: each is a pass of its own, and the table has what was measured."""

from pathlib import Path

from every_reader import COUNT, Masks, write_sets

import robench


def test_a_suite_with_larger_batches_has_every_number(tmp_path: Path) -> None:
    registry, results = write_sets(tmp_path), tmp_path / "results"
    suite = robench.load_suite("masks-adv", dataset="masked", registry=registry).only(["clean", "fgsm-4"])
    assert suite.batch_size > 1
    (row,) = robench.run(suite, {"mine": Masks()}, key="masks", registry=registry, results=results).rows
    for cell in row.cells.values():
        assert (cell.num_examples, cell.missing, cell.estimate is None) == (COUNT, 0, False)
