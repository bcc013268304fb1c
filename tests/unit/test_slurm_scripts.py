"""Scripts for Slurm: their text, what bash and Slurm read in it, signals, and turns in the queue."""

import os
import re
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_slurm import FakeSlurm

from robench.core.errors import UsageError
from robench.runs.slurm import SlurmJobs, _minutes, array_text, submitted, tables_text

GOLDEN = Path(__file__).parents[1] / "golden" / "slurm"
PLAIN = SlurmJobs(
    what=(("--suite", "digits-adv"), ("--model", "digits-vit"), ("--limit", "20"), ("--results", "/data/results")),
    work=("run", "--take-over", "--no-audit"),
    tables=(("report",), ("leaderboard", "--format", "md", "--output", "/data/table.md")), num_jobs=4,
    folder=Path("/data/results/slurm"), logs=Path("/data/results/slurm"), working_folder=Path("/home/me"),
    python="/opt/robench/bin/python", setup=("module load cuda",), time="12:00:00", partition="gpu", account="lab",
    num_gpus=1, num_cpus=8, memory="32G", options=("--qos=long",), table_options=("--qos=short",), max_requeues=100,
    given_up=75,
)  # fmt: skip
SCRIPTS = {"measure": array_text, "tables": tables_text}
HOSTILE = (
    "two words", "it's", 'a"b', "$(touch owned)", "`touch owned`", "$HOME ${IFS}", "; touch owned", "& touch owned",
    "* ? [a]", "#comment", "back\\slash", "line\nbreak", "tab\t", "--option", "~", "!history", "percent %j %%",
    "é\udcff", ")", "",
)  # fmt: skip


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    return FakeSlurm(tmp_path / "slurm", monkeypatch)


def written(text: str, tmp_path: Path) -> Path:
    path = tmp_path / "script.sbatch"
    path.write_bytes(os.fsencode(text))
    return path


def directives(text: str) -> dict[str, str]:
    """Return the options that Slurm reads in a script, by its rules of quotes, backslashes and comments."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        if line.startswith("#SBATCH "):
            name, _, value = slurm_word(line.removeprefix("#SBATCH ")).partition("=")
            found[name] = value
    return found


def slurm_word(text: str) -> str:
    """Return the first word as sbatch 22.05 reads it: a backslash escapes in both kinds of quotes."""
    word, quote, is_escaped = "", "", False
    for character in text:
        if is_escaped:
            word, is_escaped = word + character, False
        elif character == "\\":
            is_escaped = True
        elif quote and character == quote:
            quote = ""
        elif not quote and character in "\"'":
            quote = character
        elif not quote and (character == "#" or character.isspace()):
            break
        else:
            word += character
    return word


class TestText:
    @pytest.mark.parametrize("name", SCRIPTS)
    def test_scripts_are_the_golden_files(self, name: str) -> None:
        assert SCRIPTS[name](PLAIN) == (GOLDEN / f"{name}.sbatch").read_text()

    def test_what_slurm_reads(self) -> None:
        assert directives(array_text(PLAIN)) == {
            "--job-name": "robench", "--array": "1-4", "--chdir": "/home/me",
            "--output": "/data/results/slurm/%A_%a.log", "--open-mode": "append", "--requeue": "",
            "--signal": "B:USR1@120", "--time": "12:00:00", "--partition": "gpu", "--account": "lab", "--nodes": "1",
            "--ntasks": "1", "--gres": "gpu:1", "--cpus-per-task": "8", "--mem": "32G", "--qos": "long",
        }  # fmt: skip
        assert directives(tables_text(PLAIN)) == {
            "--job-name": "robench-tables", "--chdir": "/home/me", "--output": "/data/results/slurm/%j_tables.log",
            "--open-mode": "append", "--partition": "gpu", "--account": "lab", "--nodes": "1", "--ntasks": "1",
            "--qos": "short",
        }  # fmt: skip

    def test_what_is_not_asked_for_is_left_to_slurm(self) -> None:
        nothing = dict.fromkeys(("time", "partition", "account", "num_gpus", "num_cpus", "memory"))
        jobs = replace(PLAIN, **nothing, options=(), table_options=(), setup=())
        left_out = {"--time", "--partition", "--account", "--gres", "--cpus-per-task", "--mem", "--qos"}
        assert directives(array_text(jobs)).keys() == directives(array_text(PLAIN)).keys() - left_out
        assert directives(tables_text(jobs)).keys() == directives(tables_text(PLAIN)).keys() - left_out
        assert "|| exit\n" not in array_text(jobs) + tables_text(jobs)

    @pytest.mark.parametrize("name", ["two words", "it's", 'a"b', "a#b", "é\udcff", "$HOME", "%A", "--x"])
    def test_slurm_reads_hostile_names(self, name: str) -> None:
        folder = Path("/data") / name
        jobs = replace(PLAIN, logs=folder, working_folder=folder)
        for text, file in ((array_text(jobs), "%A_%a.log"), (tables_text(jobs), "%j_tables.log")):
            found = directives(text)
            assert found["--chdir"] == str(folder)
            assert found["--output"] == f"{str(folder).replace('%', '%%')}/{file}"

    def test_slurm_reads_backslashes(self) -> None:
        jobs = replace(PLAIN, working_folder=Path("/a\\b"), partition="c\\d", account='"', at_once=2)
        found = directives(array_text(jobs))
        assert found["--array"] == "1-4%2"
        assert (found["--chdir"], found["--partition"], found["--account"]) == ("/a\\b", "c\\d", '"')


class TestRefusals:
    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"time": "soon"}, "--time must be minutes"),
            ({"time": "1:00:00 --wrap=x"}, "--time must be minutes"),
            ({"time": "4"}, "at least 5 minutes"),
            ({"time": "0:04:59"}, "at least 5 minutes"),
            ({"memory": "much"}, "--mem must be such as 32G"),
            ({"memory": "1G\n"}, "--mem must be such as 32G"),
            ({"partition": "a\nb"}, "--partition must be a name"),
            ({"partition": ""}, "--partition must be a name"),
            ({"account": "\x1b[31m"}, "--account must be a name"),
            ({"options": ("touch owned",)}, "--sbatch-option must be an option of sbatch"),
            ({"options": ("--qos=a\ntouch owned",)}, "--sbatch-option must be an option of sbatch"),
            ({"table_options": ("",)}, "--tables-option must be an option of sbatch"),
            ({"options": ("--array=1-100%8",)}, "must not be --array, .* use --jobs and --at-once"),
            ({"options": ("-a 1-100",)}, "must not be --array, .* use --jobs and --at-once"),
            ({"options": ("--wrap=true",)}, "must not be --wrap"),
            ({"options": ("--output=x",)}, "must not be --output, .* logs are in the results folder"),
            ({"options": ("-ox",)}, "must not be --output"),
            ({"options": ("--outp=x",)}, "must not be --output"),
            ({"options": ("--mem=1G",)}, "must not be --mem, .* use --mem of robench submit"),
            ({"table_options": ("--chdir=/",)}, "--tables-option must not be --chdir"),
            ({"setup": ("a\nb",)}, "--setup must be one line"),
            ({"python": " "}, "--python must be one line"),
            ({"logs": Path("/a\nb/slurm")}, "--results is '/a\\nb'"),
            ({"logs": Path("/a\\b/slurm")}, "backslash"),
            ({"working_folder": Path("/a\x1bb")}, "the current folder is"),
        ],
    )
    def test_values_that_slurm_cannot_take(self, changed: dict[str, Any], message: str) -> None:
        with pytest.raises(UsageError, match=message.replace("\\", "\\\\")):
            replace(PLAIN, **changed)

    @pytest.mark.parametrize(
        ("text", "minutes"),
        [
            ("90", 90),
            ("90:30", 90),
            ("1:30:00", 90),
            ("100:00:00", 6000),
            ("1-0", 1440),
            ("2-03", 3060),
            ("2-03:04", 3064),
            ("2-03:04:05", 3064),
            ("", None),
            ("-1", None),
            ("1:2:3:4", None),
            ("1-", None),
            ("1.5", None),
            ("٣٠", None),
            ("UNLIMITED", None),
        ],
    )
    def test_time_limits(self, text: str, minutes: int | None) -> None:
        assert _minutes(text) == minutes


class TestJobs:
    """The scripts, run by bash as Slurm runs them."""

    @pytest.fixture
    def script(self, slurm: FakeSlurm, tmp_path: Path) -> Path:
        return written(array_text(replace(PLAIN, python=str(slurm.program), setup=())), tmp_path)

    def test_each_job_measures_its_part(self, slurm: FakeSlurm, script: Path) -> None:
        assert slurm.run_task(script, 3).returncode == 0
        what = ["--suite", "digits-adv", "--model", "digits-vit", "--limit", "20", "--results", "/data/results"]
        run = [*what, "--take-over", "--no-audit", "--part", "3/4"]
        assert slurm.words == ["-P", "-m", "robench", "run", *run]
        assert slurm.requeued == []

    def test_hostile_values_are_kept(self, slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        values = tuple(("--model", value) for value in HOSTILE)
        jobs = replace(
            PLAIN, python=str(slurm.program), setup=(), what=values, work=("run", *HOSTILE),
            tables=(("report", *HOSTILE),),
        )  # fmt: skip
        given = [word for words in values for word in words]
        assert slurm.run_task(written(array_text(jobs), tmp_path)).returncode == 0
        assert slurm.words == ["-P", "-m", "robench", "run", *given, *HOSTILE, "--part", "1/4"]
        (slurm.folder / "program").unlink()
        assert slurm.run_task(written(tables_text(jobs), tmp_path)).returncode == 0
        assert slurm.words == ["-P", "-m", "robench", "report", *given, *HOSTILE]
        assert not (tmp_path / "owned").exists()
        # What a terminal would obey, and a line break that would look like another command, is written as an escape.
        for text in (array_text(jobs), tables_text(jobs)):
            assert text.replace("\n", "").isprintable()
            assert not [line for line in text.splitlines() if line.startswith("break")]

    @pytest.mark.parametrize("code", [0, 1, 2, 143])
    def test_a_job_that_ends_by_itself_is_not_queued_again(self, slurm: FakeSlurm, script: Path, code: int) -> None:
        slurm.set_program(code)
        assert slurm.run_task(script).returncode == code
        assert slurm.requeued == []

    def test_sigusr1_is_passed_on_and_the_job_queued_again(self, slurm: FakeSlurm, script: Path) -> None:
        slurm.set_program(waits=True)
        assert slurm.signalled(script, signal.SIGUSR1) == 75
        assert slurm.requeued == ["requeue 7_1"]

    def test_sigusr1_before_robench_hears_signals(self, slurm: FakeSlurm, script: Path) -> None:
        slurm.set_program("$(kill -s USR1 $$)")
        ended = slurm.run_task(script)
        assert ended.returncode == 138
        assert slurm.requeued == ["requeue 7_1"]

    def test_sigusr1_while_the_environment_is_set_up(self, slurm: FakeSlurm, tmp_path: Path) -> None:
        slurm.set_program(waits=True)
        jobs = replace(PLAIN, python=str(slurm.program), setup=("kill -s USR1 $$",))
        # Depending on the moment the program is ended by the signal, or handles it.
        assert slurm.run_task(written(array_text(jobs), tmp_path)).returncode in (75, 138)
        assert slurm.requeued == ["requeue 7_1"]

    def test_a_job_that_slurm_ends_is_not_queued_again_by_the_script(self, slurm: FakeSlurm, script: Path) -> None:
        slurm.set_program(waits=True)
        assert slurm.signalled(script, signal.SIGTERM) == 75
        assert slurm.requeued == []

    @pytest.mark.parametrize(("count", "turns"), [("99", 1), ("100", 0), ("101", 0)])
    def test_a_job_is_not_queued_again_for_ever(self, slurm: FakeSlurm, script: Path, count: str, turns: int) -> None:
        slurm.set_program(75)
        ended = slurm.run_task(script, 2, SLURM_RESTART_COUNT=count)
        assert ended.returncode == 75
        assert slurm.requeued == ["requeue 7_2"] * turns
        assert ("Job 7_2 is not queued again after 100 times" in ended.stderr) == (not turns)

    def test_a_job_that_cannot_be_queued_again_says_how_to_go_on(self, slurm: FakeSlurm, script: Path) -> None:
        slurm.set_program(75)
        slurm.set_scontrol(1)
        ended = slurm.run_task(script)
        assert ended.returncode == 75
        advice = "Job 7_1 cannot be queued again. To go on, submit once more: /data/results/slurm/measure.sbatch\n"
        assert ended.stderr == advice

    @pytest.mark.parametrize("name", SCRIPTS)
    def test_nothing_runs_where_the_environment_fails(self, slurm: FakeSlurm, tmp_path: Path, name: str) -> None:
        jobs = replace(PLAIN, python=str(slurm.program), setup=("cd .", "false"))
        assert slurm.run_task(written(SCRIPTS[name](jobs), tmp_path)).returncode == 1
        assert slurm.words == []

    def test_a_table_that_fails_keeps_no_other_from_being_written(self, slurm: FakeSlurm, tmp_path: Path) -> None:
        slurm.set_program("$(( $(tr '\\0' '\\n' < {} | grep -c robench) == 1 ))".format(slurm.folder / "program"))
        jobs = replace(PLAIN, python=str(slurm.program), setup=())
        assert slurm.run_task(written(tables_text(jobs), tmp_path)).returncode == 1
        assert [word for word in slurm.words if word in ("report", "leaderboard")] == ["report", "leaderboard"]


class TestSubmitted:
    def test_a_job_waits_for_another_on_its_cluster(self, slurm: FakeSlurm) -> None:
        slurm.answer("'12;far'")
        assert submitted(Path("/a b.sbatch")) == "12;far"
        assert submitted(Path("/c.sbatch"), after="12;far") == "12;far"
        assert slurm.submissions == [
            ["--parsable", "/a b.sbatch"],
            ["--parsable", "--dependency=afterany:12", "--clusters=far", "/c.sbatch"],
        ]

    def test_what_sbatch_complains_of_is_passed_on(self, slurm: FakeSlurm, caplog: pytest.LogCaptureFixture) -> None:
        slurm.answer("12; echo 'sbatch: a remark' >&2")
        assert submitted(Path("/a.sbatch")) == "12"
        assert "sbatch: a remark" in caplog.text

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            ("; echo 'invalid partition' >&2; exit 1", r"did not take /a.sbatch \(exit code 1\): invalid partition"),
            ("Submitted batch job 12", r"\(exit code 0\): Submitted batch job 12"),
            ("''", r"\(exit code 0\): it printed nothing"),
            ("'12; rm -r /'", r"\(exit code 0\): 12; rm"),
        ],
    )
    def test_what_sbatch_refuses(self, slurm: FakeSlurm, answer: str, message: str) -> None:
        slurm.answer(answer)
        with pytest.raises(UsageError, match=message):
            submitted(Path("/a.sbatch"))

    def test_there_is_no_sbatch(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(UsageError, match="no program sbatch is on the PATH"):
            submitted(Path("/a.sbatch"))

    def test_sbatch_is_no_program(self, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(slurm.folder / "bin"))
        (slurm.folder / "bin" / "sbatch").write_bytes(b"\x7fELF nonsense")
        with pytest.raises(UsageError, match="sbatch cannot be run"):
            submitted(Path("/a.sbatch"))


def test_the_page_shows_the_scripts_of_its_command() -> None:
    page = (GOLDEN.parents[2] / "docs" / "slurm.md").read_text()
    shown = re.findall(r"```bash\n(.*?)```", page, re.DOTALL)
    assert shown == [array_text(PLAIN), tables_text(PLAIN)]
