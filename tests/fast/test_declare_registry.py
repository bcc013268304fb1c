"""Registries: what entries are read as, and how several files add up."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from presence import present

from examples import MEASUREMENT
from robench.attention.rpc import Rpc
from robench.core.checkpoint import Checkpoint, Weights
from robench.core.errors import DeclarationError, did_you_mean
from robench.datasets import DATASETS
from robench.declarations.preprocessing import ImagePreprocessing
from robench.declare import merge, read_registry, shipped_folder, shipped_registry
from robench.declare.registry import sound_part_of
from robench.declare.yaml_source import read_yaml
from robench.models.foreign import Python, Timm
from robench.models.layouts import LAYOUTS
from robench.models.vit import Vit
from robench.training.images import Training
from robench.training.texts import TextTraining

FULL = """\
checkpoints:
  digits-rpc-symvit:
    architecture:
      {backbone: vit, image_size: 32, patch_size: 8, num_classes: 10, depth: 4, dim: 64, num_heads: 4, mlp_ratio: 2,
       attention: {kind: rpc, num_iterations: 4, sparsity: 4, layers: [0], elsewhere: symmetric, formula: paper}}
    weights:
      uri: checkpoints/digits-rpc-symvit.safetensors
      sha256: 0123abcd
      how_to_get: make checkpoints
      layout: timm-ema
    preprocessing: {kind: image, mean: [0.305, 0.305, 0.305], std: [0.35, 0.35, 0.35]}
    task: classification
    trained_on: digits
    training_data: digits, 1,197 training images
    source: made here
    licence: Apache-2.0
    expected: {top1_accuracy: 0.97, robust_accuracy: 1}
    training: {dataset: digits, seed: 0, num_epochs: 60, batch_size: 64, learning_rate: 1e-3, weight_decay: 0.1}
"""
SHORT = """\
checkpoints:
  mine:
    architecture: {backbone: timm, name: deit_tiny_patch16_224}
    weights: {uri: mine.pth, sha256: null}
    preprocessing: {kind: image, mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}
"""


TIMM = "backbone: timm, name: deit_tiny_patch16_224"


def write(folder: Path, text: str, name: str = "registry.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def problems_of(folder: Path, text: str) -> list[str]:
    path = write(folder, text)
    with pytest.raises(DeclarationError) as caught:
        read_registry(path)
    header, *problems = str(caught.value).splitlines()
    assert header == f"{path}: {len(problems)} problem{'s' * (len(problems) > 1)}"
    return [problem.strip() for problem in problems]


def test_an_entry_that_states_everything(tmp_path: Path) -> None:
    assert read_registry(write(tmp_path, FULL)) == {
        "digits-rpc-symvit": Checkpoint(
            name="digits-rpc-symvit",
            architecture=Vit(
                image_size=32,
                patch_size=8,
                num_classes=10,
                depth=4,
                dim=64,
                num_heads=4,
                mlp_ratio=2.0,
                attention=Rpc(num_iterations=4, sparsity=4.0, layers=(0,), elsewhere="symmetric", formula="paper"),
            ),
            weights=Weights(
                uri="checkpoints/digits-rpc-symvit.safetensors",
                sha256="0123abcd",
                how_to_get="make checkpoints",
                layout="timm-ema",
            ),
            preprocessing=ImagePreprocessing(mean=(0.305, 0.305, 0.305), std=(0.35, 0.35, 0.35)),
            task="classification",
            trained_on="digits",
            training_data="digits, 1,197 training images",
            source="made here",
            licence="Apache-2.0",
            folder=tmp_path,
            registry=tmp_path / "registry.yaml",
            expected={"top1_accuracy": 0.97, "robust_accuracy": 1.0},
            training=Training(
                dataset="digits", seed=0, num_epochs=60, batch_size=64, learning_rate=0.001, weight_decay=0.1
            ),
        )
    }


def test_an_entry_that_states_only_what_it_must(tmp_path: Path) -> None:
    assert read_registry(write(tmp_path, SHORT))["mine"] == Checkpoint(
        name="mine",
        architecture=Timm(name="deit_tiny_patch16_224"),
        weights=Weights(uri="mine.pth", sha256=None),
        preprocessing=ImagePreprocessing(mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5)),
        task="classification",
        training_data="not stated",
        source="not stated",
        licence="not stated",
        folder=tmp_path,
        registry=tmp_path / "registry.yaml",
    )


def test_weights_are_looked_for_beside_the_file_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, SHORT)
    monkeypatch.chdir(tmp_path)
    found = read_registry(Path("registry.yaml"))["mine"]
    assert (found.folder, found.registry) == (tmp_path, tmp_path / "registry.yaml")


@pytest.mark.parametrize(
    ("text", "coupled"), [("", False), ("    coupled: false\n", False), ("    coupled: true\n", True)]
)
def test_rows_are_coupled_only_where_an_entry_says_so(tmp_path: Path, text: str, coupled: bool) -> None:
    assert read_registry(write(tmp_path, SHORT + text))["mine"].coupled is coupled


def test_rows_of_robenchs_own_backbones_are_known_not_to_be_coupled(tmp_path: Path) -> None:
    text = FULL + "    coupled: true\n"
    (problem,) = problems_of(tmp_path, text)
    wanted = "line 19: checkpoints.digits-rpc-symvit.coupled: must be false: .*"
    assert re.fullmatch(f"{wanted}backbone vit does not couple the rows of a batch", problem)
    assert not read_registry(write(tmp_path, FULL + "    coupled: false\n"))["digits-rpc-symvit"].coupled


GIVEN = """\
checkpoints:
  mine:
    of: rpc-symvit
    weights: {uri: mine.pth, sha256: null, layout: deit, by: authors, source: their page}
    licence: MIT
    seeds: [{seed: 3, uri: mine-3.safetensors, sha256: null, by: user}]
"""


def test_weights_of_a_shipped_entry_inherit_all_but_weights_seeds_scores_and_licence(tmp_path: Path) -> None:
    found = read_registry(write(tmp_path, GIVEN))
    shipped = read_registry(shipped_registry())["rpc-symvit"]
    mine, seed = found["mine"], found["mine@3"]
    for name in ("architecture", "preprocessing", "task", "training", "trained_on", "coupled", "training_data"):
        assert getattr(mine, name) == getattr(shipped, name)
    assert (mine.belongs_to, mine.entry, mine.folder, mine.licence) == ("rpc-symvit", "rpc-symvit", tmp_path, "MIT")
    assert mine.weights == Weights(uri="mine.pth", sha256=None, layout="deit", by="authors", source="their page")
    assert (mine.expected, mine.source) == ({}, "not stated")
    assert (seed.seed_of, seed.entry, seed.weights.by) == ("mine", "rpc-symvit", "user")
    assert seed.training == shipped.training.seeded(3)  # type: ignore[union-attr]  # it has a recipe


def test_fields_that_are_stated_as_in_the_shipped_entry_are_no_mistake(tmp_path: Path) -> None:
    entry = shipped_registry().read_text().split("  digits-symvit:\n")[1].split("    seeds:")[0]
    stated = entry.replace("seed: 0", "seed: 9").replace("classification\n", "classification\n    of: digits-symvit\n")
    (mine,) = read_registry(write(tmp_path, f"checkpoints:\n  mine:\n{stated}")).values()
    assert mine.entry == "digits-symvit"
    assert present(mine.training).seed == 9


def test_initial_weights_of_a_shipped_recipe_are_found_from_any_registry(tmp_path: Path) -> None:
    text = "checkpoints: {mine: {of: sst2-smoe-medium, weights: {uri: a.safetensors, sha256: null}}}\n"
    (mine,) = read_registry(write(tmp_path, text)).values()
    assert isinstance(mine.training, TextTraining)
    assert (
        Path(present(mine.training.initial_weights).uri)
        == shipped_folder() / "weights/wikitext-smoe-medium.safetensors"
    )


LIKE = """\
checkpoints:
  base: {like: cifar10-vit, architecture: {depth: 2}, training: {num_epochs: 1}, weights: {uri: w, sha256: null}}
  cifar10-twicing-vit:
    FIELDS
    weights:
      uri: checkpoints/cifar10-twicing-vit.safetensors
      sha256: 2543192d8164a0884862603105c5ebb57740c3612050a7cdc9ee3808db70b80b
      by: robench
      how_to_get: "Make it with 'robench train NAME --data-root DATA' (docs/cifar10.md)."
    source: robench train cifar10-twicing-vit
    licence: Apache-2.0
    expected: {top1_accuracy: 0.7179}
"""


@pytest.mark.parametrize(
    ("like", "architecture", "training"),
    [
        ("cifar10-vit", "{attention: {kind: twicing}}", "{}"),
        ("cifar10-vit", "{kind: vit, attention: {kind: twicing}}", "{kind: one-cycle, seed: 0}"),
        ("base", "{depth: 4, attention: {kind: twicing}}", "{num_epochs: 12}"),
    ],
)
def test_an_entry_that_is_like_another_is_the_one_spelled_out(
    tmp_path: Path, like: str, architecture: str, training: str
) -> None:
    """In the shipped registry all models of CIFAR-10 are spelled out."""
    given = f"like: {like}\n    architecture: {architecture}\n    training: {training}"
    found = read_registry(write(tmp_path, LIKE.replace("FIELDS", given)))["cifar10-twicing-vit"]
    spelled = read_registry(shipped_registry())["cifar10-twicing-vit"]
    at_home = replace(found, folder=spelled.folder, registry=spelled.registry)
    assert at_home == spelled
    assert replace(MEASUREMENT, checkpoint=found).key == replace(MEASUREMENT, checkpoint=spelled).key


def test_an_entry_takes_no_weights_scores_seeds_or_sources_from_the_one_it_is_like(tmp_path: Path) -> None:
    text = "checkpoints: {mine: {like: cifar10-vit, weights: {uri: a.safetensors, sha256: null}, trained_on: null}}\n"
    (mine,) = read_registry(write(tmp_path, text)).values()
    theirs = read_registry(shipped_registry())["cifar10-vit"]
    assert (mine.architecture, mine.preprocessing, mine.training) == (
        theirs.architecture, theirs.preprocessing, theirs.training,
    )  # fmt: skip
    assert mine.weights == Weights(uri="a.safetensors", sha256=None)
    assert (mine.expected, mine.source, mine.licence, mine.paper) == ({}, "not stated", "not stated", "")
    assert (mine.trained_on, mine.belongs_to, mine.entry) == (None, None, "mine")


def test_an_entry_like_a_broken_one_is_kept_if_what_it_takes_is_sound(tmp_path: Path) -> None:
    text = (
        "checkpoints:\n  base: {like: cifar10-vit, weights: {uri: a, sha256: no-digest}}\n"
        "  mine: {like: base, weights: {uri: b, sha256: null}}\n"
    )
    registry = sound_part_of(read_yaml(write(tmp_path, text)), tmp_path)
    assert (list(registry.checkpoints), list(registry.broken)) == (["mine"], [("checkpoints", "base")])


def test_weights_are_the_users_unless_an_entry_says_otherwise(tmp_path: Path) -> None:
    (entry,) = read_registry(write(tmp_path, SHORT)).values()
    assert (entry.weights.by, entry.weights.source, entry.belongs_to, entry.entry) == ("user", "", None, "mine")


def test_entries_keep_the_order_of_the_file(tmp_path: Path) -> None:
    entry = SHORT.split("\n", 1)[1]
    text = "checkpoints:\n" + entry.replace("mine:", "z:") + entry.replace("mine:", "a:") + entry.replace("mine:", "m:")
    assert list(read_registry(write(tmp_path, text))) == ["z", "a", "m"]


def test_a_registry_may_be_empty(tmp_path: Path) -> None:
    assert read_registry(write(tmp_path, "checkpoints: {}\n")) == {}


@pytest.mark.parametrize(
    ("field", "example"),
    [("architecture", " such as {backbone: vit}"), ("weights", ""), ("preprocessing", " such as {kind: image}")],
)
def test_a_required_field_that_is_missing_is_one_problem(tmp_path: Path, field: str, example: str) -> None:
    text = "\n".join(line for line in SHORT.splitlines() if f"    {field}:" not in line)
    wanted = f"line 2: checkpoints.mine.{field}: missing: it must be a mapping{example}"
    assert problems_of(tmp_path, text) == [wanted]


OR_TEXT = "or text in quotes, got"
KNOWN = "by, how_to_get, key, layout, prefix, sha256, source, uri"
BESIDE = "must be left out beside key and prefix, which say where the tensors are"


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        (
            "{uri: mine.pth}",
            "sha256: missing: it must be 8 to 64 hexadecimal digits in lower case, or null where nobody published one",
        ),
        ("{sha256: null}", "uri: missing"),
        ("{uri: null, sha256: null}", "uri: must be text, got null"),
        ("{uri: mine.pth, sha256: 12345678}", "sha256: must be text, got 12345678; put it in quotes"),
        ("{uri: a, sha256: 1234e567}", f"sha256: must be a finite number of reasonable size, {OR_TEXT} 1234e567"),
        ("{uri: a, sha256: 01234567}", f"sha256: must be a decimal number without leading zeros, {OR_TEXT} 01234567"),
        ("{uri: a, sha256: null, md5: a}", f"md5: unknown field 'md5'. Known: {KNOWN}."),
        ("{uri: a, sha256: null, layout: timm, prefix: model.}", f"layout: {BESIDE}"),
    ],
)
def test_wrong_weights_are_one_problem(tmp_path: Path, weights: str, problem: str) -> None:
    text = SHORT.replace("{uri: mine.pth, sha256: null}", weights)
    assert problems_of(tmp_path, text) == [f"line 4: checkpoints.mine.weights.{problem}"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_weights_may_be_in_any_declared_layout(tmp_path: Path, layout: str) -> None:
    text = SHORT.replace("sha256: null", f"sha256: null, layout: {layout}")
    assert read_registry(write(tmp_path, text))["mine"].weights.layout == layout


@pytest.mark.parametrize(
    ("layout", "problem"),
    [
        ("diet", "unknown layout 'diet'. Did you mean 'deit'?"),
        ("''", "unknown layout ''. Known: "),
        ("null", "must be text, got null"),
        ("[model]", "must be text, got a list"),
    ],
)
def test_another_layout_is_one_problem_with_the_known_ones(tmp_path: Path, layout: str, problem: str) -> None:
    (met,) = problems_of(tmp_path, SHORT.replace("sha256: null", f"sha256: null, layout: {layout}"))
    assert met.startswith(f"line 4: checkpoints.mine.weights.layout: {problem}")


@pytest.mark.parametrize(
    ("architecture", "problem"),
    [
        ("output: 0.5", "output: must be a whole number or a name, got 0.5"),
        ("output: true", "output: must be a whole number or a name, got True"),
        ("outputs: 0", "outputs: unknown field 'outputs'. Did you mean 'output'?"),
    ],
)
def test_a_wrong_output_of_a_python_backbone_is_one_problem(tmp_path: Path, architecture: str, problem: str) -> None:
    (met,) = problems_of(tmp_path, SHORT.replace(TIMM, f"backbone: python, target: a:b, {architecture}"))
    assert problem in met


def test_outputs_and_distilled_forms_are_read(tmp_path: Path) -> None:
    python = "backbone: python, target: a:b, output: {}"
    for output in (0, -1, "logits"):
        text = SHORT.replace(TIMM, python.format(output))
        assert read_registry(write(tmp_path, text))["mine"].architecture == Python(target="a:b", output=output)
    sizes = "image_size: 8, patch_size: 4, num_classes: 5, depth: 2, dim: 12, num_heads: 3"
    text = SHORT.replace(TIMM, f"backbone: vit, {sizes}, distilled: true")
    architecture = read_registry(write(tmp_path, text))["mine"].architecture
    assert isinstance(architecture, Vit)
    assert architecture.distilled


@pytest.mark.parametrize("digest", ["a" * 8, "0" * 64, "'12345678'", "a1311bcf", "null", "~"])
def test_digests_are_8_to_64_digits_or_null(tmp_path: Path, digest: str) -> None:
    text = SHORT.replace("sha256: null", f"sha256: '{digest}'" if digest[0] in "a0" else f"sha256: {digest}")
    met = read_registry(write(tmp_path, text))["mine"].weights.sha256
    assert met == (None if digest in ("null", "~") else digest.strip("'"))


@pytest.mark.parametrize("digest", ["", "a" * 7, "a" * 65, "A1311BCF", "g1311bcf", "a1311bcf "])
def test_other_digests_are_refused(tmp_path: Path, digest: str) -> None:
    (problem,) = problems_of(tmp_path, SHORT.replace("sha256: null", f"sha256: '{digest}'"))
    assert "must be 8 to 64 hexadecimal digits in lower case, or null where nobody published one" in problem


@pytest.mark.parametrize("uri", ["a.pth", "../a.pth", "/data/a.pth", "hf-hub:owner/name/a/b.pth", "C:/a.pth"])
def test_weights_are_paths_or_on_the_hub(tmp_path: Path, uri: str) -> None:
    assert read_registry(write(tmp_path, SHORT.replace("mine.pth", uri)))["mine"].weights.uri == uri


@pytest.mark.parametrize("uri", ["https://example.org/a.pth", "hf-hub:", "hf-hub:a/b", "hf-hub:a//b", "hf-hub:/a/b"])
def test_other_places_of_weights_are_refused(tmp_path: Path, uri: str) -> None:
    (problem,) = problems_of(tmp_path, SHORT.replace("mine.pth", f"'{uri}'"))
    places = "a path (relative to this file, or absolute), hf-hub:owner/name@revision or hf-hub:owner/repository/file"
    assert problem.endswith(f"must be {places}, got {uri!r}")


TRAINING = "dataset: digits, seed: 0, num_epochs: 1, batch_size: 1, learning_rate: 1"
SHARE = "must be a proportion in [0, 1], 0.97 for 97 per cent, got"


@pytest.mark.parametrize(
    ("added", "problem"),
    [
        ("expected: {top1_accuracy: 97}", f"expected.top1_accuracy: {SHARE} 97"),
        ("expected: {top1_accuracy: -0.1}", f"expected.top1_accuracy: {SHARE} -0.1"),
        ("expected: {perplexity: -1.5}", "expected.perplexity: must be at least 0, got -1.5"),
        ("expected: {top1_accuracy: 97%}", "expected.top1_accuracy: must be a number, got '97%'"),
        ("expected: {fp95: 1}", "expected.fp95: unknown metric 'fp95'. Did you mean 'fpr95'?"),
        ("expected: [0.97]", "expected: must be a mapping, got a list"),
        ("task: clasification", "task: unknown task 'clasification'. Did you mean 'classification'?"),
        ("license: MIT", "license: unknown field 'license'. Did you mean 'licence'?"),
        ("coupled: 1", "coupled: must be true or false, got 1"),
        ("licence: 1.0", "licence: must be text, got 1.0; put it in quotes"),
        (
            f"training: {{{TRAINING.replace('digits', 'digit')}}}",
            f"training.dataset: unknown dataset 'digit'.{did_you_mean('digit', DATASETS)}",
        ),
        (f"training: {{{TRAINING.replace('rate: 1', 'rate: 0')}}}", "training.learning_rate: must be above 0, got 0"),
        (f"training: {{kind: deid, {TRAINING}}}", "training.kind: unknown training 'deid'. Did you mean 'deit'?"),
    ],
)
def test_a_wrong_field_is_one_problem_with_its_line(tmp_path: Path, added: str, problem: str) -> None:
    (met,) = problems_of(tmp_path, SHORT + f"    {added}\n")
    assert met.startswith(f"line 6: checkpoints.mine.{problem}")


def test_mistakes_of_all_entries_are_listed_at_once(tmp_path: Path) -> None:
    entry = SHORT.split("\n", 1)[1]
    text = (
        SHORT.replace("deit_tiny_patch16_224", "8")
        + entry.replace("mine:", "Other:")
        + entry.replace("mine:", "third:").replace("timm", "tim")
        + "  fourth: {}\n"
    )
    problems = problems_of(tmp_path, text)
    assert [problem.split(": ")[1] for problem in problems] == [
        "checkpoints.mine.architecture.name", "checkpoints.Other", "checkpoints.third.architecture.backbone",
        "checkpoints.fourth.architecture", "checkpoints.fourth.weights", "checkpoints.fourth.preprocessing",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: x\n", "line 1: name: unknown field 'name'. Known: checkpoints, datasets."),
        ("checkpoints:\n", "line 1: checkpoints: must be a mapping, got null"),
        ("checkpoints: [a]\n", "line 1: checkpoints: must be a mapping, got a list"),
        ("[]\n", "line 1: must be a mapping, got a list"),
    ],
)
def test_a_registry_is_a_mapping_of_checkpoints(tmp_path: Path, text: str, problem: str) -> None:
    assert problem in problems_of(tmp_path, text)


def test_later_files_add_to_earlier_ones(tmp_path: Path) -> None:
    first, second = write(tmp_path, FULL, "first.yaml"), write(tmp_path, SHORT, "second.yaml")
    merged = merge({path: read_registry(path) for path in (first, second)})
    assert merge({}) == {}
    assert list(merged) == ["digits-rpc-symvit", "mine"]
    assert merged["mine"] == read_registry(second)["mine"]


def test_a_name_that_two_files_declare_is_an_error_that_names_both(tmp_path: Path) -> None:
    first, second = write(tmp_path, SHORT, "first.yaml"), write(tmp_path, SHORT, "second.yaml")
    with pytest.raises(DeclarationError) as caught:
        merge({path: read_registry(path) for path in (first, second)})
    assert str(caught.value) == (
        f"checkpoint 'mine' is declared in {first} and in {second}; rename one of the two, with 'of' if its weights are"
        " those of a shipped entry"
    )


@pytest.mark.parametrize("uri", ["a\\0b.pth", "a\\e[2Jb.pth", "a\\nb.pth", "hf-hub:o/r/\\0"])
def test_a_uri_has_no_control_characters(tmp_path: Path, uri: str) -> None:
    (problem,) = problems_of(tmp_path, SHORT.replace("mine.pth", f'"{uri}"'))
    assert "checkpoints.mine.weights.uri: must have no control characters, got" in problem


@pytest.mark.parametrize("uri", ["/dev/zero", "pipe", "zeros"])
def test_weights_are_a_regular_file_or_not_there_yet(tmp_path: Path, uri: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zeros").symlink_to("/dev/zero")
    (problem,) = problems_of(tmp_path, SHORT.replace("mine.pth", uri))
    assert "weights.uri: must be a regular file, got a pipe or a device" in problem
    assert read_registry(write(tmp_path, SHORT.replace("mine.pth", "absent.pth")))["mine"].weights.uri == "absent.pth"


def test_a_registry_has_at_most_ten_thousand_entries_and_an_entry_no_thousand_unknown_fields(tmp_path: Path) -> None:
    many = "checkpoints: {" + ", ".join(f"m{number}: " for number in range(10_001)) + "}"
    (problem,) = problems_of(tmp_path, many)
    assert "checkpoints: must have at most 10,000 entries, got 10,001" in problem
    strange = SHORT + "".join(f"    field{number}: 1\n" for number in range(51))
    (problem,) = problems_of(tmp_path, strange)
    assert "checkpoints.mine: has 51 unknown fields. " in problem
