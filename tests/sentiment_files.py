"""Small files of the form of SST-2, SST-5 and IMDb, and declarations of their sizes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from robench.datasets.published_texts import IMDB, SST2, SST2_TEST, SST5, LabelledFiles

# Sentences and classes. GLUE's rows end in a blank before the tab.
SENTENCES = (
    ("it 's a charming and often affecting journey . ", 1),
    ("unflinchingly bleak and desperate ", 0),
    ('a " what if ? " ( maybe ) about clichés\u00a0of the 1\u20442 \u2028 kind ', 0),
    ("bon bons", 1),
)
# Trees and, written by hand, class of the root, words as they are and in lower case.
TREES = (
    ("(3 (2 It) (4 (4 (2 's) (4 lovely)) (2 .)))", 3, "It 's lovely ."),
    ("(1 (1 -LRB-) (1 (2 (2 It) (2 's)) (1 (3 -RRB-) (1 BAD))))", 1, "( It 's ) BAD"),
    ("(2 (2 accordion\\/harmonica\\/banjo) (2 a\u00a0\\*))", 2, "accordion/harmonica/banjo a\u00a0*"),
    ("(0 (0 Wow) (0 (2 (2 no) (2 (2 it) (2 is))) (1 not)))", 0, "Wow no it is not"),
    ("(4 Wow)", 4, "Wow"),
    ("(2 (2 Neither) (2 nor))", 2, "Neither nor"),
)
# By folder and name: content, and the text that is read.
REVIEWS = {
    "neg/0_3.txt": ("Story of a man; he doesn't go.<br /><br />Bad!", "Story of a man ; he doesn't go .\nBad !"),
    "neg/1_1.txt": (
        "Well-made\x85 <i>nonsense</i> \u2013 1/10<br />",
        "Well-made < i > nonsense < / i > \u2013 1 / 10",
    ),
    "neg/10_4.txt": ("  Éric <br />\n<br /> sleeps.\r\nOften", "Éric\nsleeps . Often"),
    "pos/0_7.txt": ("If you like\tit, see it.", "If you like it , see it ."),
    "pos/1_10.txt": ("10", "10"),
    "pos/2_8.txt": ("Bromwell High<br />is a cartoon comedy.", "Bromwell High\nis a cartoon comedy ."),
}
ARCHIVES = {"sst2": "SST-2.zip", "sst5": "trainDevTestTrees_PTB.zip", "imdb": "aclImdb_v1.tar.gz"}


def table(rows: tuple[tuple[str, int], ...] = SENTENCES) -> bytes:
    return "".join(["sentence\tlabel\n", *(f"{sentence}\t{label}\n" for sentence, label in rows)]).encode()


def trees() -> bytes:
    return "".join(f"{tree}\n" for tree, _, _ in TREES).encode()


def small_sst2(**fields: Any) -> LabelledFiles:
    return replace(SST2, **{"sizes": (len(SENTENCES),) * 2, "num_examples": len(SENTENCES), **fields})


def small_sst5(**fields: Any) -> LabelledFiles:
    return replace(SST5, **{"sizes": (len(TREES),) * 3, "num_examples": len(TREES), **fields})


def small_sst2_test(**fields: Any) -> LabelledFiles:
    return replace(SST2_TEST, **{"sizes": (4,), "num_examples": 4, **fields})


def small_imdb(**fields: Any) -> LabelledFiles:
    return replace(IMDB, **{"sizes": (len(REVIEWS),) * 2, "num_examples": len(REVIEWS), **fields})


# By the name of the published dataset.
SMALL = {small().name: small for small in (small_sst2, small_sst2_test, small_sst5, small_imdb)}


def write_all(root: Path) -> Path:
    """Write the files of all splits of all datasets below a data root, and return it."""
    for path, content in all_files().items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    return root


def all_files() -> dict[str, bytes]:
    """Contents by path below the data root."""
    reviews = {
        f"aclImdb/{split}/{name}": content.encode()
        for split in ("train", "test")
        for name, (content, _) in REVIEWS.items()
    }
    tables = {f"SST-2/{split}.tsv": table() for split in ("train", "dev")}
    return reviews | tables | {f"trees/{split}.txt": trees() for split in ("train", "dev", "test")}
