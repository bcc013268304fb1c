"""Results behind papers' tables: entries whose results count, weights of the authors, and equal weights."""

from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
from papers_examples import TWIN, printed, records, registry, suite, table_with
from presence import present

from robench.core.checkpoint import Checkpoint, Weights
from robench.core.identity import key_of
from robench.core.records import Record
from robench.core.report import Row
from robench.core.shard import ShardHeader
from robench.declare import shipped_folder
from robench.papers.basis import AuthorsWeights, authors_of
from robench.papers.reading import measured_models, models_by_suite, reports_for
from robench.store import MemoryStore

SUITE = "digits-shift"
ENTRY = "digits-symvit"
PUBLISHED = "a1311bcf"
DIGEST = "b" * 64


def given(name: str, base: str | None, **weights: str | None) -> Checkpoint:
    """Weights of a user's registry."""
    fields = {"uri": "mine.pth", "sha256": None} | weights
    known = registry()[base or ENTRY]
    return replace(known, name=name, belongs_to=base, folder=Path("/home/me"), weights=Weights(**fields), seed_of=None)  # type: ignore[arg-type]


def measured(name: str, digest: str = DIGEST, num_wrong: int = 3, tensors: str | None = None) -> list[Record]:
    """Results of a model under its name, as if its layout were another than that of all others."""

    def renamed(shard: ShardHeader) -> ShardHeader:
        keys = {each: key_of([name, getattr(shard, each)]) for each in ("key", "measurement_key")}
        return replace(shard, checkpoint=name, tensors_digest=tensors, **keys)  # type: ignore[arg-type]  # both are text

    return [replace(each, shard=renamed(each.shard)) for each in records(SUITE, ENTRY, num_wrong, digest)]


def stored(*measurements: list[Record]) -> MemoryStore:
    store = MemoryStore()
    for record in chain(*measurements):
        store.put(record)
    return store


def rows_of(store: MemoryStore, *users: Checkpoint, entry: str = ENTRY) -> list[Row]:
    checkpoints = {**registry(), **{each.name: each for each in users}}
    manifests, suites = list(store.manifests()), {SUITE: suite(SUITE)}
    models = measured_models({SUITE: {entry}}, suites, manifests, checkpoints)
    return list(reports_for(models, suites, store, checkpoints, authors_of(checkpoints, manifests))[SUITE].rows)


def known(digest: str, *users: Checkpoint) -> dict[str, str]:
    """How weights measured with a digest are known to be the authors', by entry."""
    checkpoints = {**registry(), **{each.name: each for each in users}}
    store = stored(*(measured(each.name, digest) for each in users or (registry()["deit-tiny"],)))
    found = authors_of(checkpoints, store.manifests())
    return {entry: each.known for entry, each in found.weights.items()}


BY = {"by": "authors", "source": "their page"}


class TestAuthors:
    def test_the_published_checksum_says_it(self) -> None:
        mine = given("mine", "deit-tiny", **BY)
        assert known(PUBLISHED + "0" * 56, mine) == {"deit-tiny": "by checksum"}
        assert known(PUBLISHED + "0" * 56) == {"deit-tiny": "by checksum"}

    def test_other_bytes_than_the_published_ones_are_not_the_authors(self) -> None:
        mine = given("mine", "deit-tiny", **BY)
        assert known(DIGEST, mine) == {}
        assert known(DIGEST) == {}
        (row,) = rows_of(stored(measured("mine")), mine, entry="deit-tiny")
        assert (row.model, row.seeds) == ("deit-tiny", ("mine",))
        said = "mine: declared as the authors' weights, but their SHA-256 is bbbbbbbb and not the published a1311bcf"
        assert row.notes[-1] == f"{said} of deit-tiny, so that they count as a training"

    @pytest.mark.parametrize("base", ["rpc-symvit", None])
    def test_where_no_checksum_is_published_they_are_as_declared(self, base: str | None) -> None:
        assert known(DIGEST, given("mine", base, **BY)) == {base or "mine": "as declared"}
        assert known(DIGEST, given("mine", base, **BY, sha256=DIGEST[:8])) == {base or "mine": "as declared"}

    def test_a_checksum_of_ones_own_declares_other_published_weights(self) -> None:
        said = "as declared, with the SHA-256 bbbbbbbb in place of the published a1311bcf of deit-tiny"
        assert known(DIGEST, given("mine", "deit-tiny", **BY, sha256=DIGEST)) == {"deit-tiny": said}

    @pytest.mark.parametrize(
        ("uri", "is_theirs"),
        [
            ("a/their_model-bbbbbbbb.pth", True),
            ("a/their_model-abcdef01.pth", False),
            ("a/their_model-abcdef01.pth.tar", False),
            ("a/their_model-20240101.pth", True),
            ("a-abcdef01/model.pth", True),
        ],
    )
    def test_a_checksum_in_the_files_name_is_checked(self, uri: str, is_theirs: bool) -> None:
        wanted = {"rpc-symvit": "as declared"} if is_theirs else {}
        assert known(DIGEST, given("mine", "rpc-symvit", **BY, uri=uri)) == wanted

    def test_a_pinned_checksum_is_that_of_every_measurement(self) -> None:
        mine = given("mine", "rpc-symvit", **BY, sha256=DIGEST)
        checkpoints = {**registry(), "mine": mine}
        store = stored(measured("mine"), measured("mine", "c" * 64))
        assert authors_of(checkpoints, store.manifests()).refused.keys() == {"mine"}

    @pytest.mark.parametrize("by", ["third-party", "robench", "user"])
    def test_weights_of_all_others_are_not_the_authors(self, by: str) -> None:
        assert known(PUBLISHED + "0" * 56, given("mine", "deit-tiny", by=by)) == {}

    def test_one_checkpoint_of_an_entry_counts_and_the_checked_one_before_others(self) -> None:
        users = given("a", "deit-tiny", **BY, sha256=DIGEST), given("b", "deit-tiny", **BY)
        store = stored(measured("a"), measured("b", PUBLISHED + "0" * 56))
        found = authors_of({**registry(), **{each.name: each for each in users}}, store.manifests())
        assert found.weights["deit-tiny"] == AuthorsWeights(checkpoint="b", known="by checksum")
        (row,) = rows_of(store, *users, entry="deit-tiny")
        assert (row.model, row.seeds) == ("deit-tiny", ())
        assert "a is by the authors too, and left out" in row.notes

    def test_every_shipped_file_says_who_trained_it(self) -> None:
        for each in registry().values():
            weights = each.weights
            assert (weights.by == "robench") == weights.uri.startswith("checkpoints/")
            assert (weights.by == "authors") == weights.how_to_get.startswith("Download ")
            assert each.folder == shipped_folder()


class TestEntries:
    def test_weights_given_to_a_shipped_entry_are_seeds_of_it(self) -> None:
        mine, other = given("mine", ENTRY), given("other", None)
        seeds = measured("mine", "a" * 64, 2), measured("mine@1", "b" * 64, 4)
        store = stored(*seeds, measured("other", "c" * 64), [*records(SUITE, ENTRY, 6)])
        (row,) = rows_of(store, mine, other)
        assert (row.model, row.seeds) == (ENTRY, (ENTRY, "mine", "mine@1"))
        estimate = present(row.cells["clean/top1_accuracy"].estimate)
        assert estimate.of_seeds == (0.7, 0.9, 0.8)

    def test_the_authors_weights_have_a_row_of_their_own_before_the_seeds(self) -> None:
        theirs = given("theirs", ENTRY, **BY)
        theirs_only = rows_of(stored(measured("theirs", "a" * 64)), theirs)
        assert [(row.model, row.seeds) for row in theirs_only] == [(ENTRY, ())]
        store = stored(measured("theirs", "a" * 64), [*records(SUITE, ENTRY)], measured("mine", "b" * 64))
        rows = rows_of(store, theirs, given("mine", ENTRY))
        assert [(row.model, row.seeds) for row in rows] == [(ENTRY, ()), (ENTRY, (ENTRY, "mine"))]

    def test_other_models_and_suites_are_left_out(self) -> None:
        store = stored([*records(SUITE, ENTRY)], [*records(SUITE, f"{ENTRY}@1")], [*records(SUITE, "digits-vit")])
        suites, manifests = {SUITE: suite(SUITE)}, list(store.manifests())
        assert measured_models({SUITE: {ENTRY}}, suites, manifests, registry()) == {SUITE: [ENTRY, f"{ENTRY}@1"]}
        assert measured_models({SUITE: {"other"}}, suites, manifests, registry()) == {}

    def test_models_are_those_of_cells_and_twins(self) -> None:
        missing = printed(row="c", model="deit-tiny", missing="x", metric=None)
        found = models_by_suite([table_with(printed(twin=TWIN), missing)])
        assert found == {"imagenet-shift": {"symvit"}, SUITE: {ENTRY}}


class TestEqualWeights:
    def test_three_files_with_equal_tensors_are_one_seed(self) -> None:
        names = ("a", "b", "c")
        store = stored(*(measured(name, name * 64, 3, tensors="e" * 64) for name in names))
        (row,) = rows_of(store, *(given(name, ENTRY) for name in names))
        assert (row.model, row.seeds) == (ENTRY, ("a",))
        assert row.notes[-2:] == tuple(f"{name} has the weights of a, and does not count again" for name in "bc")

    def test_equal_files_are_one_seed_in_records_without_digests_of_tensors(self) -> None:
        store = stored(measured("a"), measured("b"), measured("c", "c" * 64))
        (row,) = rows_of(store, *(given(name, ENTRY) for name in "abc"))
        assert row.seeds == ("a", "c")
        assert "a: b has the weights of a, and does not count again" in row.notes

    def test_a_copy_of_the_authors_weights_is_no_seed_beside_them(self) -> None:
        users = given("theirs", ENTRY, **BY), given("copy", ENTRY)
        copies = measured("theirs", "a" * 64, tensors="e" * 64), measured("copy", tensors="e" * 64)
        (row,) = rows_of(stored(*copies), *users)
        assert (row.model, row.seeds) == (ENTRY, ())
        assert row.notes[-1] == "copy has the same weights as the authors' theirs, and does not count again"
