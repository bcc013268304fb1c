"""Each command of docs/requests.md does what was asked for, on fewer examples than it names."""

import csv
import json
import math
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import ROOT, Ended, Robench
from snippets import PAGES, check_command, check_python
from torch import nn

import robench
from robench.core.errors import UsageError

ROW = re.compile(
    r"^\| (?P<asked>[^|]+) \| \[(?P<thread>[^]]+)\]\((?P<link>[^)]+)\) \| (?P<answer>.+) \|$", re.MULTILINE
)
ROWS = {found["thread"]: found for found in ROW.finditer(PAGES["requests"])}
CODE = re.compile(r"`(robench[ .][^`]+)`")
CHECKS: dict[str, tuple[Callable[["Answer"], None], bool]] = {}
GENERATOR = torch.Generator().manual_seed(0)
IMAGES = torch.rand(4, 3, 32, 32, generator=GENERATOR)
LEVELS = (255 * IMAGES).round() / 255

FEW_ATTACKS = """
name: few
version: 1
seed: 0
dataset: digits
batch_size: 8
audit: false
conditions:
  - {name: clean, num_examples: 8}
  - {name: fab, num_examples: 8, perturbation: {kind: fab, num_steps: 5}}
  - {name: fmn, num_examples: 8, perturbation: {kind: fmn, norm: linf, num_steps: 20}}
metrics: [top1_accuracy]
"""


class Net(nn.Module):
    """Linear model, behind a change of its inputs; within 8/255 its logits move by far more than their margin."""

    def __init__(self, num_classes: int = 10, change: str = "") -> None:
        super().__init__()
        self.change, self.drop = change, nn.Dropout()
        self.weight = nn.Parameter(torch.randn(3072, num_classes, generator=GENERATOR))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if self.change == "noise":
            images = images + 0.01 * torch.randn_like(images)
        if self.change == "dropout":
            images = self.drop(images)
        return images.flatten(1) @ self.weight

    def attack(self, code: str, images: torch.Tensor = IMAGES, **names: Any) -> Any:
        """Return what a line of the page returns of this model."""
        with torch.no_grad():
            labels = (images.flatten(1) @ self.weight).argmax(1)
        return eval(code, {"robench": robench, "net": self, "images": images, "labels": labels} | names)


class Rounded(Net):
    """The same behind rounding, through which no gradient passes."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return super().forward((4 * images).round() / 4)


@dataclass(frozen=True)
class Answer:
    """A row's lines of code, and the means to run them in the current folder."""

    codes: tuple[str, ...]
    robench: Robench

    def run(self, index: int = 0, *options: object, code: int = 0) -> Ended:
        """Run a command of the row with further options."""
        ended = self.robench(*shlex.split(self.codes[index])[1:], *options)
        assert ended.code == code, ended.stderr
        return ended

    def smoke(self) -> str:
        """Return the table of a run of four examples; a limit is left out."""
        options = shlex.split(self.codes[0].partition(" --limit")[0])[1:]
        ended = self.robench(*options, "--smoke", "--executor", "serial")
        assert ended.code == 0, ended.stderr
        return ended.stdout


def checks(thread: str, *, is_slow: bool = False) -> Callable[[Callable[[Answer], None]], Callable[[Answer], None]]:
    def note(check: Callable[[Answer], None]) -> Callable[[Answer], None]:
        CHECKS[thread] = check, is_slow
        return check

    return note


def test_the_page_has_a_row_and_a_link_for_each_thread() -> None:
    assert PAGES["requests"].count("https://") == len(ROWS) == 25
    for thread, row in ROWS.items():
        place, _, number = thread.partition("#")
        assert row["link"] in {f"https://github.com/{place}/{kind}/{number}" for kind in ("issues", "pull")}
        assert CODE.search(row["answer"]), thread
    assert ROWS.keys() == CHECKS.keys()


@pytest.mark.parametrize("thread", ROWS)
def test_the_code_of_a_row_has_names_that_there_are(thread: str) -> None:
    for code in CODE.findall(ROWS[thread]["answer"]):
        if code.startswith("robench."):
            check_python(f"import robench\n{code}", {})
        else:
            check_command(shlex.split(code), {})


@checks("fra31/auto-attack#70")
def _(answer: Answer) -> None:
    (code,) = answer.codes
    assert bool(Net(2).attack(code).success.all())
    with pytest.raises(UsageError, match="has 2 classes: its apgd with loss dlr-targeted needs at least 4"):
        Net(2).attack(code.replace("few-classes", "standard"))


@checks("fra31/auto-attack#15")
def _(answer: Answer) -> None:
    made = Net(change="noise").attack(answer.codes[0])
    assert bool(made.success.all())
    assert made.num_gradients.tolist() == [20 * 20] * 4


@checks("fra31/auto-attack#44")
def _(answer: Answer) -> None:
    made = Net().attack(answer.codes[0], LEVELS)
    changes = 255 * (made.inputs - LEVELS).double()
    assert bool(made.success.all())
    assert bool(((changes - changes.round()).abs() < 1e-3).all())
    assert float(changes.abs().max()) == pytest.approx(8, abs=1e-3)


@checks("fra31/auto-attack#51", is_slow=True)
def _(answer: Answer) -> None:
    table = answer.smoke()
    assert "digits-vit (float16, first 4)" in table
    assert "passes ran in float16 (torch.autocast), its inputs, perturbations and scores are float32" in table


@checks("bethgelab/foolbox#306", is_slow=True)
def _(answer: Answer) -> None:
    table = answer.smoke()
    clean, attacked = (float(number) for number in re.findall(r"(?:clean|cospgd-2) mean IoU +([\d.]+)", table))
    assert attacked < clean - 5


@checks("bethgelab/foolbox#638")
def _(answer: Answer) -> None:
    net = Net()
    queries = net.attack(answer.codes[0])
    made = net.attack(answer.codes[0].removesuffix(".num_queries"))
    assert queries.tolist() == made.num_queries.tolist()
    assert made.num_gradients.tolist() == [0] * 4
    assert all(100 < number <= 502 for number in queries.tolist())


@checks("bethgelab/foolbox#74")
def _(answer: Answer) -> None:
    net = Net(change="dropout").train()
    made = net.attack(answer.codes[0])
    assert net.training
    assert torch.equal(made.inputs, net.eval().attack(answer.codes[0]).inputs)


@checks("bethgelab/foolbox#246", is_slow=True)
def _(answer: Answer) -> None:
    Path("few.yaml").write_text(FEW_ATTACKS)
    code = answer.codes[0].replace("attackbench-digits", "few.yaml")
    (group,) = json.loads(answer.robench(*shlex.split(code)[1:], "--json", "--executor", "serial").stdout)["groups"]
    outcomes = robench.outcomes("few.yaml", limit=50).to_pandas()
    attacked = outcomes[outcomes["condition"] != "clean"]
    assert attacked["found"].all()
    nearest = attacked.loc[attacked.groupby("example_id", observed=True)["linf"].idxmin(), "condition"].astype(str)
    assert {each["name"]: each["num_nearest"] for each in group["attacks"]} == dict(nearest.value_counts())
    assert len(nearest) == 8


@checks("bethgelab/foolbox#324", is_slow=True)
def _(answer: Answer) -> None:
    answer.run(0, "--no-audit", "--executor", "serial")
    (row,) = json.loads(answer.run(1, "--json").stdout)
    assert (row["num_examples"], row["num_missing"], row["violations"], row["disagreements"]) == (100, 0, [], [])
    assert row["submitted"] == row["rescored"] < 0.5


@checks("Trusted-AI/adversarial-robustness-toolbox#368", is_slow=True)
def _(answer: Answer) -> None:
    assert "RAISED  zero gradients " in answer.run(code=1).stdout
    with pytest.warns(UserWarning, match=r"all gradients of 4 of 4 examples \(100%\) were zero"):
        robench.attack("pgd", epsilon=8 / 255, num_steps=2)(Rounded(), IMAGES, torch.zeros(4, dtype=torch.long))


@checks("Trusted-AI/adversarial-robustness-toolbox#618", is_slow=True)
def _(answer: Answer) -> None:
    options = ("--condition", "pgd", "--limit", 200, "--no-audit", "--json")
    several = answer.run(0, *options, "--results", "two", "--executor", "processes")
    alone = answer.robench(*shlex.split(answer.codes[0])[1:-2], *options, "--results", "one", "--executor", "serial")
    assert json.loads(several.stdout)["rows"] == json.loads(alone.stdout)["rows"]


@checks("Harry24k/MAIR#3", is_slow=True)
def _(answer: Answer) -> None:
    table = answer.run(0, "--executor", "serial").stdout
    assert re.search(r"^model +clean +from digits-vit +from digits-symvit$", table, re.MULTILINE)
    own, others = re.findall(
        r"^digits-vit \(first 100\) +[\d.]+ \S+ \S+ +([\d.]+) \S+ \S+ +([\d.]+)", table, re.MULTILINE
    )[0]
    assert float(own) < float(others) < 100


@checks("cleverhans-lab/cleverhans#6", is_slow=True)
def _(answer: Answer) -> None:
    answer.run(0, "--count", 4)
    page = Path("view.html").read_text()
    assert page.count("data:image/png;base64,") >= 8


@checks("bethgelab/imagecorruptions#11", is_slow=True)
def _(answer: Answer) -> None:
    def images(seed: int) -> dict[str, bytes]:
        code, folder = answer.codes[0].replace("--seed 7", f"--seed {seed}"), Path("frost")
        assert answer.robench(*shlex.split(code)[1:], "--count", 2).code == 0
        return {path.name: path.read_bytes() for path in folder.glob("frost-3/*.png")}

    first = images(7)
    assert len(first) == 2
    assert images(7) == first
    assert all(images(8)[name] != image for name, image in first.items())


@checks("hendrycks/robustness#65", is_slow=True)
def _(answer: Answer) -> None:
    assert re.search(r"digits-c mean error\n-+ +-+\ndigits-vit \(first 4\) +1\d\.\d ", answer.smoke())


@checks("NVlabs/SegFormer#71", is_slow=True)
def _(answer: Answer) -> None:
    table = answer.smoke()
    assert len(set(re.findall(r"^(\w+)-\d mean IoU", table, re.MULTILINE))) == 15
    assert len(re.findall(r"^frost-\d mean IoU", table, re.MULTILINE)) == 3


@checks("RobustBench/robustbench#97")
def _(answer: Answer) -> None:
    report = Net().attack(answer.codes[0])
    assert report.rows[0].cells["pgd/top1_accuracy"].estimate.value == 0


@checks("Harry24k/adversarial-attacks-pytorch#145")
def _(answer: Answer) -> None:
    class Seen(Net):
        lowest = 0.0

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            Seen.lowest = min(Seen.lowest, float(images.detach().min()))
            return super().forward(images)

    Seen().attack(answer.codes[0])
    # A black pixel.
    assert Seen.lowest == (0 - 0.5) / 0.25


@checks("QData/TextAttack#729")
def _(answer: Answer) -> None:
    with Path("test.csv").open("w", newline="") as file:
        rows = [
            (f"The film number {number} was {('boring', 'funny')[number % 2]}.", number % 2) for number in range(20)
        ]
        csv.writer(file).writerows([("text", "label"), *rows])
    Path("texts.yaml").write_text(
        "datasets: {reviews: {kind: csv, path: test.csv, text_column: text, label_column: label}}"
    )
    report = Net().attack(answer.codes[0], predict=lambda texts: [[1.0, 2.0 * ("funny" in text)] for text in texts])
    clean, greedy = (report.rows[0].cells[f"{name}/top1_accuracy"].estimate.value for name in ("clean", "greedy"))
    assert clean == 1
    assert greedy < 1


@checks("sovrasov/flops-counter.pytorch#124")
def _(answer: Answer) -> None:
    (row,) = json.loads(answer.run(0, "--json").stdout)
    # Of 12 layers: 197 tokens, 197 queries, width 192, once by keys and once by values.
    counts = row["multiply_adds"]
    assert counts["products"] - counts["linear"] == 12 * 197 * 197 * 192 * 2


@checks("fra31/auto-attack#98", is_slow=True)
def _(answer: Answer) -> None:
    answer.run(0, "--condition", "clean", "--no-audit", "--executor", "serial")
    assert ", 1 kept, " in answer.run(0, "--dry-run", "--no-audit").stdout
    first = answer.run(0, "--no-audit", "--executor", "serial")
    again = answer.run(0, "--no-audit", "--executor", "serial")
    assert again.stdout == first.stdout
    assert "6 kept, 0 to do" in answer.run(0, "--no-audit", "--dry-run").stdout


@checks("coeff-giving/unrestricted-adversarial-examples#10")
def _(answer: Answer) -> None:
    assert re.search(r"^about \d+ .+ until the end in ", answer.run().stdout, re.MULTILINE)


@checks("bethgelab/foolbox#686", is_slow=True)
def _(answer: Answer) -> None:
    found = re.findall(r"^pgd (\S+) top-1 accuracy +([\d.]+) ", answer.smoke(), re.MULTILINE)
    assert [budget for budget, _ in found] == ["0", *(f"{2 * step}/255" for step in range(1, 7))]
    assert float(found[-1][1]) < float(found[0][1])


@checks("EleutherAI/lm-evaluation-harness#3831")
def _(answer: Answer) -> None:
    table = answer.run().stdout
    (found,) = re.findall(
        r"^fgsm top-1 accuracy .+ exact McNemar +([\d.]+) +[\d.]+ +(\d+) +(\d+)$", table, re.MULTILINE
    )
    # 171 images that one model alone gets right, 63 of them the first.
    p = 2 * sum(math.comb(171, k) for k in range(64)) / 2**171
    assert found[1:] == ("63", "108")
    assert float(found[0]) == pytest.approx(p, rel=0.01)


@checks("bethgelab/model-vs-human#15")
def _(answer: Answer) -> None:
    rows = list(csv.DictReader(answer.run().stdout.splitlines()))
    # 15 columns and the number of raised flags.
    assert len(rows) == 3 * 10
    assert {row["model"] for row in rows} == {"digits-vit", "digits-symvit", "digits-rpc-symvit"}
    as_json = json.loads(answer.robench(*shlex.split(answer.codes[0])[1:-1], "json").stdout)
    (value,) = (
        float(row["value"]) for row in rows if (row["model"], row["column"]) == ("digits-vit", "pgd/top1_accuracy")
    )
    (row,) = (row for row in as_json["rows"] if row["model"] == "digits-vit")
    assert value == row["cells"]["pgd/top1_accuracy"]["value"]


@pytest.mark.parametrize(
    "thread", [pytest.param(thread, marks=[pytest.mark.slow] * slow) for thread, (_, slow) in CHECKS.items()]
)
def test_a_request_is_fulfilled(thread: str, robench: Robench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "reports").symlink_to(ROOT / "reports")
    monkeypatch.chdir(tmp_path)
    check, _ = CHECKS[thread]
    check(Answer(codes=tuple(CODE.findall(ROWS[thread]["answer"])), robench=robench))
