"""ListOps in its published size: the digests of all splits, and 10,000 values against an independent evaluator."""

import numpy as np
from listops_reference import depth_of, value_of

from robench.datasets.listops_impl import generated
from robench.datasets.lra import LISTOPS
from robench.datasets.tokens_impl import fingerprint_of
from robench.domains.listops import text_of


def test_all_expressions_are_the_declared_ones_and_have_their_values() -> None:
    splits = generated(LISTOPS)
    assert tuple(fingerprint_of(LISTOPS, rows) for rows in splits.values()) == LISTOPS.sha256s
    texts: set[str] = set()
    for rows, count in zip(splits.values(), (6_000, 2_000, 2_000), strict=True):
        parts = np.split(rows.flat.astype(np.int64) + 1, rows.ends[:-1])
        for part, value in zip(parts[:count], rows.targets, strict=False):
            text = text_of(part)
            assert value_of(text) == value
            assert depth_of(text) == 10
            texts.add(text)
        lengths, answers = np.diff(rows.ends, prepend=0), np.bincount(rows.targets) / len(rows.targets)
        assert lengths.min() >= 501
        assert lengths.max() <= 1999
        assert 1_000 < lengths.mean() < 1_060
        assert 0.06 < answers[1:9].min() <= answers[1:9].max() < 0.1
        assert 0.15 < answers[[0, 9]].min() <= answers[[0, 9]].max() < 0.19
    assert len(texts) == 10_000
