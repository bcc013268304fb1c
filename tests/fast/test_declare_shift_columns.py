"""Columns over corruptions and out-of-distribution examples, and the mistakes that keep them from being read."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from robench.core.errors import DeclarationError, UnknownNameError
from robench.core.suite import Condition
from robench.corruptions import COMMON_CORRUPTIONS, EXTRA_CORRUPTIONS
from robench.datasets.digits import DIGITS
from robench.declarations.base import PerturbationBase
from robench.declare import parse_suite
from robench.declare.columns import corruption_problems
from robench.metrics.reference_errors import averaged_types

CLEAN = {"name": "clean", "dataset": "digits"}
OUT = {"name": "o", "dataset": "digits-o", "negatives": "clean"}


def corrupted(*types: str, severities: tuple[int, ...] = (1, 2, 3, 4, 5), dataset: str = "digits") -> list[Any]:
    perturbations = [{"kind": "corruption", "type": each, "severity": level} for each in types for level in severities]
    return [
        {"name": f"{each['type']}-{each['severity']}", "dataset": dataset, "perturbation": each}
        for each in perturbations
    ]


def parsed(conditions: list[Any], *metrics: str):
    fields = {"name": "s", "version": 1, "seed": 0, "batch_size": 10, "conditions": conditions, "metrics": [*metrics]}
    return parse_suite(fields)


def problem(conditions: list[Any], *metrics: str) -> str:
    with pytest.raises(DeclarationError) as caught:
        parsed(conditions, *metrics)
    return str(caught.value)


class TestColumns:
    def test_a_metric_of_types_has_a_column_a_type_over_its_severities_alone(self) -> None:
        columns = parsed([CLEAN, *corrupted("snow", "fog")], "corruption_error").columns
        assert [(each.key, each.label) for each in columns] == [
            ("digits-c/snow/corruption_error", "digits-c snow corruption error"),
            ("digits-c/fog/corruption_error", "digits-c fog corruption error"),
        ]
        assert columns[0].conditions == tuple(f"snow-{severity}" for severity in (1, 2, 3, 4, 5))

    def test_a_metric_of_families_has_one_over_the_clean_images_and_all_types(self) -> None:
        (column,) = parsed([CLEAN, *corrupted(*COMMON_CORRUPTIONS)], "mean_corruption_error").columns
        assert (column.key, column.label) == ("digits-c/mean_corruption_error", "digits-c mCE")
        assert column.conditions[0] == "clean"
        assert len(column.conditions) == 1 + 75

    def test_severities_stand_in_their_order_whatever_the_files(self) -> None:
        conditions = corrupted("snow")[::-1]
        (column,) = parsed([CLEAN, *conditions], "corruption_error").columns
        assert column.conditions == tuple(f"snow-{severity}" for severity in (1, 2, 3, 4, 5))

    def test_published_and_live_corruptions_are_two_families(self) -> None:
        published = [{"name": f"p-{s}", "dataset": f"imagenet-c/snow/{s}"} for s in (1, 2, 3, 4, 5)]
        columns = parsed([*published, *corrupted("snow", dataset="imagenet-1k")], "mean_error").columns
        assert [column.key for column in columns] == ["imagenet-c/mean_error", "imagenet-c-live/mean_error"]
        assert not set(columns[0].conditions) & set(columns[1].conditions)

    def test_the_extra_four_have_a_mean_of_their_own_and_an_error_each(self) -> None:
        pairs = [(kind, s) for kind in EXTRA_CORRUPTIONS for s in (1, 2, 3, 4, 5)]
        extra = [{"name": f"{kind}-{s}", "dataset": f"imagenet-c/{kind}/{s}"} for kind, s in pairs]
        columns = parsed(extra, "mean_corruption_error", "corruption_error").columns
        own = [f"imagenet-c/{kind}/corruption_error" for kind in EXTRA_CORRUPTIONS]
        assert [column.key for column in columns] == ["imagenet-c/mean_corruption_error", *own]
        assert len(columns[0].conditions) == 20

    @pytest.mark.parametrize(
        ("left_out", "types", "words", "num_read"),
        [
            # The mean is over the published types; spatter has a column of its own alone.
            ({"spatter"}, COMMON_CORRUPTIONS, "", 76),
            ({"clean"}, COMMON_CORRUPTIONS, "", 80),
            ({"snow", "frost"}, set(COMMON_CORRUPTIONS) - {"snow", "frost"}, "without snow, frost", 71),
            # Without one severity a type has no mean.
            ({"fog-3", "clean"}, set(COMMON_CORRUPTIONS) - {"fog"}, "without fog", 75),
            (set(COMMON_CORRUPTIONS) - {"snow", "fog"}, {"snow", "fog"}, "over snow, fog", 16),
        ],
    )
    def test_a_mean_over_the_types_that_are_left_says_over_which(
        self, left_out: set[str], types: Any, words: str, num_read: int
    ) -> None:
        conditions = [CLEAN, *corrupted(*COMMON_CORRUPTIONS, "spatter")]
        suite = parsed(conditions, "mean_error", "mean_corruption_error", "corruption_error")
        names = {each.name for each in suite.conditions if not {each.name, each.name.split("-")[0]} & left_out}
        column = suite.only(names).columns[0]
        assert column.label == f"digits-c mean error {words}".rstrip()
        assert column.key == f"digits-c/mean_error/{words.replace(', ', '-').replace(' ', '-')}".rstrip("/")
        assert set(column.averages) == set(types)
        assert set(column.conditions) <= names
        assert len(column.conditions) == num_read
        # The mCE is over all of its types or absent.
        assert "mCE" not in {each.label.removeprefix("digits-c ") for each in suite.only(names).columns}
        with pytest.raises(UnknownNameError, match=r"unknown condition 'snow\*'"):
            suite.only({"clean", "snow*"})

    def test_detection_has_a_column_over_the_examples_and_then_their_negatives(self) -> None:
        columns = parsed([CLEAN, OUT], "aupr", "top1_accuracy").columns
        assert [(each.key, each.conditions) for each in columns] == [
            ("clean/top1_accuracy", ("clean",)),
            ("o/aupr", ("o", "clean")),
        ]
        assert "positives: out of distribution" in columns[1].label


MCE = "mean_corruption_error"
LACKS_SEVERITIES = "corruption_error needs five severities of digits-c snow; add 3, 5"
LACKS_JPEG = "is over 15 corruptions of digits-c; add jpeg_compression, or take mean_error"
LACKS_CLEAN = "needs the images of imagenet-c-live without corruption; add {name: clean}"
LACKS_REFERENCE = "a reference's errors, which imagenet-c, imagenet-c-live, digits-c have and digits-r-c has not"
LACKS_TYPES = "is over 4 corruptions of imagenet-c; add speckle_noise, gaussian_blur, spatter, or take mean_error"
UNDEFINED = "of digits-c is undefined: {} does not raise digits-vit's error"


class TestMistakes:
    @pytest.mark.parametrize(
        ("conditions", "metric", "message"),
        [
            ([CLEAN], "mean_error", "mean_error needs corruptions at five severities; add conditions such as"),
            ([CLEAN, *corrupted("snow", severities=(1, 2, 4))], "corruption_error", LACKS_SEVERITIES),
            ([CLEAN, *corrupted(*COMMON_CORRUPTIONS[:-1])], MCE, LACKS_JPEG),
            (corrupted(*COMMON_CORRUPTIONS, dataset="imagenet-1k"), f"relative_{MCE}", LACKS_CLEAN),
            ([CLEAN, *corrupted(*COMMON_CORRUPTIONS)], f"relative_{MCE}", UNDEFINED.format("defocus_blur")),
            ([CLEAN, *corrupted("snow", dataset="digits-r")], "corruption_error", LACKS_REFERENCE),
            ([{"name": f"s-{s}", "dataset": f"imagenet-c/saturate/{s}"} for s in range(1, 6)], MCE, LACKS_TYPES),
            ([CLEAN, *corrupted(*EXTRA_CORRUPTIONS)], f"relative_{MCE}", UNDEFINED.format("gaussian_blur")),
            ([CLEAN], "aupr", "aupr needs a condition whose examples are out of distribution"),
            ([CLEAN, {"name": "o", "dataset": "digits-o"}], "aupr", "aupr needs the negatives of o: name a condition"),
        ],
    )
    def test_metrics_that_lack_conditions_say_which(self, conditions: list[Any], metric: str, message: str) -> None:
        assert message in problem(conditions, metric)

    @pytest.mark.parametrize(
        ("negatives", "message"),
        [
            ({**OUT, "negatives": "nobody"}, "negatives: must name a condition of this suite, got 'nobody'"),
            ({**OUT, "negatives": "o"}, "must name a condition of examples that belong to a class, got o"),
            ({**CLEAN, "name": "x", "num_examples": 5, "negatives": "clean"}, "must be left out for digits"),
            ({**OUT, "dataset": "imagenet-o"}, "under the class mask of imagenet-o, got clean (digits)"),
        ],
    )
    def test_negatives_that_are_none_are_refused(self, negatives: dict[str, Any], message: str) -> None:
        assert message in problem([CLEAN, negatives], "top1_accuracy")

    @pytest.mark.parametrize(
        ("dataset", "message"),
        [
            ("digits-o", "must be no attack on digits-o, whose examples belong to no class"),
            ("imagenet-a", "must be no attack on imagenet-a, whose scores are masked after the model has given them"),
        ],
    )
    def test_datasets_that_cannot_be_attacked_are_refused(self, dataset: str, message: str) -> None:
        attack = {"name": "f", "dataset": dataset, "perturbation": {"kind": "fgsm", "epsilon": "1/255"}}
        assert message in problem([attack], "top1_accuracy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vignette(PerturbationBase):
    """A corruption that ImageNet-C does not have."""

    kind: ClassVar[str] = "vignette"
    severity: int

    @property
    def corruption(self) -> tuple[str, int]:
        return self.kind, self.severity


class TestTypesBesideImagenetC:
    CONDITIONS = tuple(
        Condition(name=f"vignette-{severity}", dataset=DIGITS, perturbation=Vignette(severity=severity))
        for severity in (1, 2, 3, 4, 5)
    )

    @pytest.mark.parametrize("metric", ["corruption_error", "mean_corruption_error"])
    def test_errors_in_units_of_a_reference_are_refused(self, metric: str) -> None:
        assert corruption_problems(self.CONDITIONS, metric) == [
            f"{metric} needs digits-vit's errors under vignette; take mean_error"
        ]

    def test_they_have_a_mean_of_their_own(self) -> None:
        assert corruption_problems(self.CONDITIONS, "mean_error") == []
        assert averaged_types(["vignette", "another"]) == ("another", "vignette")

    def test_and_none_beside_published_ones(self) -> None:
        assert averaged_types(["vignette", "snow"]) == COMMON_CORRUPTIONS
        assert averaged_types(["vignette", "spatter"]) == EXTRA_CORRUPTIONS
