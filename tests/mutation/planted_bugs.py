"""Do the tests catch bugs in attacks? Plants one at a time in a copy and runs the tests of attacks on it.

``python tests/mutation/planted_bugs.py [NAME ...]`` prints which were caught; it ends with 1 if more than one in twenty
was not. It takes minutes: all tests must pass without a bug first. In CI a test holds that every bug still fits the
code (tests/unit/test_planted_bugs.py).
"""

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ("tests/contract/test_perturbations_contract.py", "tests/fast", "tests/unit", "tests/contract")
# It would fail on any change to the code, whatever the tests of attacks say.
LEFT_OUT = ("--ignore", "tests/unit/test_planted_bugs.py")
SELECTED = "attack or perturbation or draws or evaluation"
MOST_MISSED = 1 / 20


@dataclass(frozen=True, slots=True)
class Bug:
    """A piece of code below robench/, found once, and what a mistake would make of it."""

    name: str
    file: str
    right: str
    wrong: str


A = "attacks/"
P = "perturbations/"
BUGS = (
    Bug(
        "search keeps what lowers",
        P + "greedy_search.py",
        "best is not None and found[best].score > current.score",
        "best is not None",
    ),
    Bug("search ranks ascending", P + "greedy_search.py", "place: -importance[place]", "place: importance[place]"),
    Bug("search beyond its budget", P + "greedy_search.py", "candidates[: self.num_left]", "candidates"),
    Bug("swapped words count", P + "greedy_search.py", "if token == wanted]", "]"),
    Bug("another seed a candidate", P + "greedy_search.py", "(self.seed,) * len(shown)", "range(len(shown))"),
    Bug("worst proposals first", P + "gradient_word_swap_impl.py", "-each.gain", "each.gain"),
    Bug("gradient passes are free", P + "greedy_search.py", "ask.num_used += 1", "pass"),
    Bug("proposals of another token", P + "gradient_word_swap_impl.py", "[[old.place for", "[[0 * old.place for"),
    Bug("flattest words first", P + "gradient_word_swap_impl.py", "-norms_L", "norms_L"),
    Bug(
        "worst substitute is kept",
        P + "greedy_search.py",
        "best = max(range(len(found)), key=lambda at: found[at].score, d",
        "best = min(range(len(found)), key=lambda at: found[at].score, d",
    ),
    Bug("stop words have synonyms", P + "greedy_search.py", "if word.lower() in STOP_WORDS else", "if not word else"),
    Bug("senses in the order of parts of speech", P + "wordnet.py", "in sorted(ranked)", "in ranked"),
    Bug("padding takes a part", A + "attack.py", "free = free_of(domain, batch.inputs)", "free = None"),
    Bug("l2 starts on padding", A + "regions.py", "drawn[:, :size] *= region.free.flatten(1)", "pass"),
    Bug("fab starts on padding", A + "nearest.py", "drawn = problem.region.freed(drawn)", "pass"),
    Bug("l1 gaps of padding", A + "regions.py", "drawn.masked_fill(~is_free, 1.0)", "drawn"),
    Bug("windows reach padding", A + "square_series_impl.py", "(lengths - sizes + 1)", "(num_steps - sizes + 1)"),
    Bug("fgsm descends", A + "fgsm_impl.py", "problem.inputs + problem.region", "problem.inputs - problem.region"),
    Bug("pgd descends", A + "pgd_impl.py", "mul_(float(", "mul_(-float("),
    Bug("no box", A + "regions.py", "torch.clamp(above, lower, upper)", "above"),
    Bug(
        "budget over 255 twice",
        A + "base.py",
        "self.norm, float(self.epsilon)",
        "self.norm, float(self.epsilon) / 255",
    ),
    Bug(
        "l2 step by the largest coordinate",
        A + "regions.py",
        "rows / rows.norm(dim=1, keepdim=True)",
        "rows / rows.abs().amax(dim=1, keepdim=True)",
    ),
    Bug(
        "last point for best",
        A + "search.py",
        "(values > other_values)",
        "(values > -torch.inf)",
    ),
    Bug("a fooled point is not preferred", A + "search.py", "(num_right < other_num_right) | (", "("),
    Bug(
        "leaves without confirmation",
        A + "search.py",
        "return candidates.index_select(0, indices_on_cpu(confirmed))",
        "return candidates",
    ),
    Bug("every pass of a step has the same draws", A + "ledger.py", "query=number)", "query=0)"),
    Bug("every step has the same draws", A + "ledger.py", "step=self.step, query", "step=0, query"),
    Bug("every search has the same draws", A + "cw_impl.py", "at(search=number, step=step)", "at(search=0, step=step)"),
    Bug(
        "members of an ensemble share their draws", A + "autoattack_impl.py", 'within(f"member {number}").take', "take"
    ),
    Bug("targets share their draws", A + "fab_impl.py", 'within(f"target {start.step}").at', "at"),
    Bug(
        "passes are counted for the whole batch",
        A + "ledger.py",
        "numbers = counts.index_select(0, rows)\n        counts.index_copy_(0, rows, numbers + 1)",
        "numbers = counts.amax().repeat(len(rows))\n        counts.add_(1)",
    ),
    Bug(
        "attacked with the prediction's draws",
        A + "problem.py",
        "LazySeeds(lambda: self._seeds_of(numbers.tolist()), num_rows)",
        "LazySeeds(lambda: self.draws.prediction_seeds, num_rows)",
    ),
    Bug("labels the wrong way round", A + "attack.py", 'declaration.labels == "true"', 'declaration.labels != "true"'),
    Bug("mean forgotten", A + "attack.py", "(batch.inputs - shift) / scale", "batch.inputs / scale"),
    Bug("half of the noise", A + "noise_impl.py", "(2.0 * noise - 1.0)", "(noise - 0.5)"),
    Bug(
        "every example has the same draws",
        "draws.py",
        "stream_seed(seed, stream) for seed in self._seeds",
        "stream_seed(0, stream) for seed in self._seeds",
    ),
    Bug(
        "dlr over the second logit",
        "tasks/classification_impl.py",
        "sorted_BK[:, 0] - sorted_BK[:, 2] + 1e-12",
        "sorted_BK[:, 0] - sorted_BK[:, 1] + 1e-12",
    ),
    Bug(
        "the margin counts the label",
        "tasks/classification_impl.py",
        "logits_BK.scatter(1, labels_B[:, None], -torch.inf)",
        "logits_BK",
    ),
    Bug("saturated examples have no gradient", "tasks/classification_impl.py", "values_B <= 0", "values_B < 0"),
    Bug("saturated losses fall", "tasks/classification_impl.py", "(1 + lead_B", "(1 - lead_B"),
    Bug("tiny gradients stay tiny", A + "passes.py", "torch.ldexp(exact, spread(missing, exact))", "exact"),
    Bug(
        "all rows are scaled",
        A + "passes.py",
        "torch.where(spread(is_small, exact), scaled",
        "torch.where(spread(is_small | True, exact), scaled",
    ),
    Bug("saturation is a missing gradient", "metrics/audits.py", "if missing else remedy", "if True else remedy"),
    Bug(
        "apgd never shortens its steps",
        A + "apgd_impl.py",
        "torch.where(halved, self.step_size / 2, self.step_size)",
        "self.step_size",
    ),
    Bug(
        "apgd goes on from where it was",
        A + "apgd_impl.py",
        "points = chosen(halved, best.points, points)",
        "points = points",
    ),
    Bug(
        "square keeps what is worse",
        A + "square_impl.py",
        "chosen(seen.values > state.values",
        "chosen(seen.values < state.values",
    ),
    Bug(
        "spsa estimates the other way",
        A + "spsa_impl.py",
        "(values[:, :num_pairs] - values[:, num_pairs:])",
        "(values[:, num_pairs:] - values[:, :num_pairs])",
    ),
    Bug("the smallest gradients", A + "regions.py", "(sizes >= least)", "(sizes <= least)"),
    Bug(
        "rows are permuted and their seeds are not",
        "evaluation/coupling.py",
        "seeds[row] for row in",
        "seeds[0] for row in",
    ),
    Bug(
        "no row meets copies of itself", "evaluation/coupling.py", "for row in rows[:num_copied]", "for row in rows[:0]"
    ),
    Bug("coupling of logits alone", "evaluation/coupling.py", "return max(logits, gradients)", "return logits"),
    Bug(
        "cw never lowers c",
        A + "cw_impl.py",
        "torch.where(is_hit, torch.minimum(succeeded, c), succeeded)",
        "succeeded",
    ),
    Bug(
        "the farthest for the nearest",
        A + "rows.py",
        "nearer = distances < self.distances[places]",
        "nearer = distances <= torch.inf",
    ),
    Bug(
        "fab does not step back",
        A + "fab_impl.py",
        "declaration.beta * (points - problem.inputs)",
        "(points - problem.inputs)",
    ),
    Bug(
        "autoattack leaves the budget",
        A + "autoattack_impl.py",
        "torch.where(is_clean, reached.points, active.region.project(reached.points))",
        "reached.points",
    ),
)


@cache
def tracked_files() -> tuple[str, ...]:
    """Return the paths of the project's files that are there, relative to its root."""
    shown = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return tuple(name for name in shown.split("\0") if name and (ROOT / name).is_file())


def is_caught(bug: Bug | None) -> bool:
    """Return whether a test fails in a copy of the project, with the bug if one is given."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in tracked_files():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
        if bug is not None:
            path = copy / "robench" / bug.file
            path.write_text(path.read_text().replace(bug.right, bug.wrong))
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            *LEFT_OUT,
            "-k",
            SELECTED,
            *TESTS,
        ]
        environment = os.environ | {"PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1"}
        return subprocess.run(command, cwd=copy, env=environment, capture_output=True, check=False).returncode == 1


def main(names: list[str]) -> int:
    """Plant the named bugs, or all; return the exit code."""
    if is_caught(None):
        raise SystemExit("the tests of attacks fail without any bug; mend that first")
    bugs = [bug for bug in BUGS if not names or bug.name in names]
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        caught = dict(zip((bug.name for bug in bugs), pool.map(is_caught, bugs), strict=True))
    for name, found in caught.items():
        sys.stdout.write(f"{'caught' if found else 'MISSED'}  {name}\n")
    missed = sum(not found for found in caught.values())
    sys.stdout.write(f"{len(caught) - missed} of {len(caught)} caught\n")
    return int(missed > MOST_MISSED * len(caught))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
