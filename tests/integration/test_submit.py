"""robench submit with a stand-in for sbatch: what is submitted, refused and said; its jobs, run here."""

import os
import re
import shlex
import signal
import sys
from pathlib import Path

import pytest
from conftest import ROOT, Robench
from fake_slurm import FakeSlurm

from robench.runs import training_queue

ASKED = ("submit", "--suite", "digits-adv", "--model", "digits-vit", "--jobs", "2")


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    monkeypatch.chdir(tmp_path)
    return FakeSlurm(tmp_path / "fake", monkeypatch)


def test_an_array_and_a_job_of_tables_after_it_are_submitted(
    robench: Robench, slurm: FakeSlurm, tmp_path: Path
) -> None:
    ended = robench(*ASKED, "--results", "r")
    scripts = [tmp_path / "r" / "slurm" / name for name in ("measure.sbatch", "tables.sbatch")]
    assert ended.code == 0
    assert ended.stdout.splitlines() == [
        "array of 2 jobs that measure: 101",
        "job of the tables, which waits for them: 102",
        f"scripts: {tmp_path}/r/slurm",
        f"logs: {tmp_path}/r/slurm",
    ]
    assert slurm.submissions == [
        ["--parsable", str(scripts[0])],
        ["--parsable", "--dependency=afterany:101", str(scripts[1])],
    ]
    assert f"{sys.executable} -P -m robench run " in scripts[0].read_text()
    assert f"#SBATCH --chdir={tmp_path}\n" in scripts[1].read_text()


def test_all_options_reach_the_jobs(robench: Robench, slurm: FakeSlurm, tmp_path: Path) -> None:
    what = ("--limit", 5, "--seed", 3, "--all-examples", "--all-seeds")
    run = ("--audit", "full", "--keep-adversarial", "float32", "--data-root", "d", "--device", "cuda")
    workers = ("--workers", 3, "--shard-timeout", 60)
    tables = ("--tables", "t.md", "--tables", "a b.html")
    assert robench(*ASKED, *what, *run, *workers, *tables, "--python", slurm.program, "--output", "scripts").code == 0
    common = ["--suite", "digits-adv", "--model", "digits-vit", "--limit", "5", "--seed", "3"]
    common += ["--all-examples", "--all-seeds", "--results", f"{tmp_path}/results"]
    assert slurm.run_task(tmp_path / "scripts" / "measure.sbatch", 2).returncode == 0
    measured = ["--take-over", "--keep-adversarial", "float32", "--data-root", f"{tmp_path}/d"]
    measured += ["--workers", "3", "--shard-timeout", "60.0", "--audit", "full", "--device", "cuda", "--part", "2/2"]
    assert slurm.words == ["-P", "-m", "robench", "run", *common, *measured]
    (slurm.folder / "program").unlink()
    assert slurm.run_task(tmp_path / "scripts" / "tables.sbatch").returncode == 0
    called = [
        ["report", *common],
        ["leaderboard", *common, "--format", "md", "--output", f"{tmp_path}/t.md"],
        ["leaderboard", *common, "--format", "html", "--output", f"{tmp_path}/a b.html"],
    ]
    assert slurm.words == [word for words in called for word in ("-P", "-m", "robench", *words)]
    assert (tmp_path / "results" / "slurm").is_dir()


def test_a_precision_reaches_the_jobs_and_their_table(robench: Robench, slurm: FakeSlurm, tmp_path: Path) -> None:
    options = ("--precision", "bfloat16", "--python", slurm.program, "--results", "r")
    assert robench(*ASKED, *options).code == 0
    for name, command in (("measure", "run"), ("tables", "report")):
        (slurm.folder / "program").unlink(missing_ok=True)
        assert slurm.run_task(tmp_path / "r" / "slurm" / f"{name}.sbatch", 1).returncode == 0
        assert slurm.words[3] == command
        assert slurm.words[slurm.words.index("--precision") + 1] == "bfloat16"
    refused = robench(*ASKED, *options, "--tables", "t.md")
    assert refused.code == 2
    assert "leaderboards, which read float32 alone" in refused.stderr


def test_patterns_and_datasets_are_settled_at_once(robench: Robench, slurm: FakeSlurm, tmp_path: Path) -> None:
    asked = ("submit", "--suite", "pgd-standard", "--dataset", "digits", "--jobs", 1, "--dry-run")
    ended = robench(*asked, "--model", "digits-rpc-released-?iter-symvit")
    models = [line.strip() for line in ended.stdout.splitlines() if line.startswith("  --model ")]
    assert models == 2 * ["--model digits-rpc-released-5iter-symvit", "--model digits-rpc-released-6iter-symvit"]
    assert ended.stdout.count("  --dataset digits\n") == 2


class TestTables:
    ASKED = ("submit", "rpc:1", "rpc:3", "--jobs", 2)

    def test_all_options_reach_the_jobs(
        self, robench: Robench, slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        chosen = ("--rows", "rpc*", "--rows", "SymViT*", "--columns", "IN-R*", "--limit", 5, "--results", "r")
        further = ("--seeds", 2, "--no-audit", "--device", "cuda", "--workers", 3, "--data-root", "d")
        monkeypatch.setenv("ROBENCH_SHARD_TIMEOUT", "60")
        assert robench(*self.ASKED, *chosen, *further, "--python", slurm.program).code == 0
        common = ["rpc:1", "rpc:3", "--rows", "rpc*", "--rows", "SymViT*", "--columns", "IN-R*", "--limit", "5"]
        common += ["--results", f"{tmp_path}/r"]
        assert slurm.run_task(tmp_path / "r" / "slurm" / "measure.sbatch", 2).returncode == 0
        reproduced = ["--seeds", "2", "--jobs", "1", "--data-root", f"{tmp_path}/d", "--workers", "3"]
        reproduced += ["--shard-timeout", "60.0", "--no-audit", "--device", "cuda", "--part", "2/2"]
        assert slurm.words == ["-P", "-m", "robench", "reproduce", *common, *reproduced]
        (slurm.folder / "program").unlink()
        assert slurm.run_task(tmp_path / "r" / "slurm" / "tables.sbatch").returncode == 0
        assert slurm.words == ["-P", "-m", "robench", "table", *common]

    def test_all_twins(self, robench: Robench, slurm: FakeSlurm, tmp_path: Path) -> None:
        assert robench("submit", "--all", "--twin", "--jobs", 3, "--python", slurm.program).code == 0
        assert slurm.run_task(tmp_path / "results" / "slurm" / "measure.sbatch", 3).returncode == 0
        common = ["--all", "--twin", "--results", f"{tmp_path}/results"]
        assert slurm.words == ["-P", "-m", "robench", "reproduce", *common, "--jobs", "1", "--part", "3/3"]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--suite", "digits-adv"), "--suite is for suites and models, and not for papers' tables (rpc:1, rpc:3)"),
            (("--seed", 1, "--precision", "float32", "--tables", "t.md"), "--seed, --precision and --tables are for"),
            (("rpc:77",), "unknown printed table 'rpc:77'"),
            (("--all",), "got both"),
            (("--rows", "nothing"), "nothing"),
            (("--columns", "nothing"), "nothing"),
            (("--twin", "rpc:12"), "no model of rpc:12 has a twin"),
            (("--device", "tpu"), "--device must be auto"),
            (("--shard-timeout", -1), "--shard-timeout must be a number of seconds above 0"),
        ],
    )
    def test_what_cannot_be_reproduced_is_refused_before_it_is_queued(
        self, robench: Robench, slurm: FakeSlurm, options: tuple[str, ...], message: str
    ) -> None:
        ended = robench(*self.ASKED, *options)
        assert ended.code == 2
        assert message in ended.stderr
        assert slurm.submissions == []

    def test_options_of_tables_without_one(self, robench: Robench, slurm: FakeSlurm) -> None:
        ended = robench(*ASKED, "--rows", "RPC*", "--twin")
        assert ended.code == 2
        message = "--rows and --twin are for papers' tables; name one, such as rpc:1, or leave them out"
        assert ended.stderr == f"Error: {message}\n"

    @pytest.mark.parametrize(("named", "missing"), [((), "--suite"), (("--suite", "digits-adv"), "--model")])
    def test_neither_tables_nor_suites_and_models(self, robench: Robench, named: tuple[str, ...], missing: str) -> None:
        ended = robench("submit", *named, "--jobs", 1)
        assert ended.code == 2
        assert f"Error: Missing option '{missing}'" in ended.stderr

    def test_sigusr1_ends_a_training_with_the_code_of_another_turn(
        self, robench: Robench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(training_queue, "wait_for", lambda processes: signal.raise_signal(signal.SIGUSR1))
        monkeypatch.setattr(os, "_exit", sys.exit)
        before = signal.getsignal(signal.SIGUSR1)
        trained = ("reproduce", "rpc:1", "--twin", "--rows", "SymViT*", "--seeds", 6, "--results", tmp_path)
        try:
            ended = robench(*trained, "--part", "1/2")
        finally:
            # It is ignored while robench ends, and would be by the jobs of later tests.
            signal.signal(signal.SIGUSR1, before)
        assert ended.code == 75
        assert "Stopped by SIGUSR1" in ended.stderr
        assert "measurement" not in ended.stderr


def test_the_command_of_the_page_writes_the_scripts_that_the_page_shows(
    robench: Robench, slurm: FakeSlurm, tmp_path: Path
) -> None:
    page = (ROOT / "docs" / "slurm.md").read_text()
    command = shlex.split(re.findall(r"```sh\n(.*?)```", page, re.DOTALL)[0])
    ended = robench(*command[1:], "--dry-run", "--python", "/opt/robench/bin/python")
    shown = re.findall(r"```bash\n(.*?)```", page, re.DOTALL)
    scripts = re.split(r"==> .* <==\n", ended.stdout.replace(f"--chdir={tmp_path}\n", "--chdir=/home/me\n"))
    assert scripts == ["", *shown]


def test_a_dry_run_prints_both_scripts_and_leaves_nothing(robench: Robench, slurm: FakeSlurm, tmp_path: Path) -> None:
    before = set(tmp_path.rglob("*"))
    shown = robench(*ASKED, "--dry-run")
    assert shown.code == 0
    assert slurm.submissions == []
    assert set(tmp_path.rglob("*")) == before
    assert robench(*ASKED).code == 0
    folder = tmp_path / "results" / "slurm"
    texts = [f"==> {folder / name} <==\n{(folder / name).read_text()}" for name in ("measure.sbatch", "tables.sbatch")]
    assert shown.stdout == "".join(texts)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--model", "digits-vitt"), 2, "unknown model 'digits-vitt'. Did you mean 'digits-vit'?"),
        (("--suite", "pgd-standard"), 2, "choose one with --dataset"),
        (("--jobs", "0"), 2, "0 is not in the range 1<=x<=1000"),
        (("--jobs", "1001"), 2, "1001 is not in the range 1<=x<=1000"),
        (("--device", "tpu"), 2, "--device must be auto, cpu, cuda or cuda:N, got 'tpu'"),
        (("--time", "3"), 2, "--time must be at least 5 minutes, got '3'"),
        (("--shard-timeout", "-1"), 2, "--shard-timeout must be a number of seconds above 0"),
        (("--tables", "x.doc"), 2, "--tables must name a file ending in .html, .md, .csv, .json, .tex, got 'x.doc'"),
        (("--results", "a\\b"), 2, "takes a backslash in the path of a log"),
        (("--results", "file"), 2, "file"),
        (("--output", "file/x"), 2, "choose another file or folder"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_it_is_queued(
    robench: Robench, slurm: FakeSlurm, tmp_path: Path, options: tuple[str, ...], code: int, message: str
) -> None:
    (tmp_path / "file").write_text("")
    ended = robench(*ASKED, *options)
    assert ended.code == code
    assert message in ended.stderr
    assert slurm.submissions == []


class TestSbatch:
    def test_it_refuses_the_job_of_the_tables_alone(self, robench: Robench, slurm: FakeSlurm, tmp_path: Path) -> None:
        slurm.answer('12; if [[ "$*" == *afterany* ]]; then echo no >&2; exit 3; fi')
        ended = robench(*ASKED)
        assert ended.code == 2
        script = tmp_path / "results" / "slurm" / "tables.sbatch"
        first, second = ended.stderr.splitlines()
        assert first == (
            f"Error: the array is submitted as job 12, but not the job of its tables: sbatch did not take {script} "
            "(exit code 3): no"
        )
        assert second == (
            f"Submit it with 'sbatch --dependency=afterany:12 {script}', or cancel the array with 'scancel 12'."
        )
