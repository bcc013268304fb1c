"""``robench cost``: tables and JSON of counts and measurements, which are kept beside the records."""

import json
from pathlib import Path

import pytest
from conftest import Robench

from robench.costs import PROTOCOLS


def test_counts_are_printed_by_rule_and_leave_nothing_behind(robench: Robench, tmp_path: Path) -> None:
    ended = robench("cost", "symvit", "bilateral-deit-tiny", "--counts-only", "--rule", "linear", "--results", tmp_path)
    assert (ended.code, ended.stderr) == (0, "")
    header, symvit, bilateral, _, rule = ended.stdout.rstrip("\n").split("\n")
    assert header.split("  ")[0] == "model"
    assert header.endswith("multiply-adds (linear)")
    assert symvit.split(maxsplit=2) == ["symvit", "5,272,744", "0.9877 G"]
    assert bilateral.split(maxsplit=2) == ["bilateral-deit-tiny", "5,717,416", "1.0749 G, training 1.3363 G"]
    assert rule.startswith("linear: ")
    assert list(tmp_path.iterdir()) == []


def test_measurements_are_kept_and_say_protocol_and_device(robench: Robench, tmp_path: Path) -> None:
    given = ("cost", "digits-symvit", "--batch-size", 2, "--ratio-to", "softmax", "--results", tmp_path)
    ended = robench(*given, "--json")
    assert ended.code == 0
    (found,) = json.loads(ended.stdout)
    (kept,) = (tmp_path / "costs").iterdir()
    assert json.loads(kept.read_text()) == found
    assert found["protocol"] == {"name": "brief", "batch_size": 2, "warm_ups": 3, "repeats": 10, "trains": True}
    assert found["device"].startswith("cpu")
    assert found["versions"].keys() >= {"torch", "robench"}
    for kind in ("inference", "training"):
        seconds = found[kind]["seconds"]
        assert 0 < seconds["low"] <= seconds["median"] <= seconds["high"]
        assert found[kind]["peak_bytes"] > 4 * found["parameters"]
        assert found[kind]["ratio"]["median"] > 0
    ended = robench(*given)
    assert "ratio to softmax" in ended.stdout
    assert "Batches of 2, 3 warm-ups, 10 timed passes" in ended.stdout
    # The same measurement, made again, takes the other's place.
    assert len(list((tmp_path / "costs").iterdir())) == 1


def test_twicings_protocol_is_a_thousand_passes_of_one_example_and_no_training() -> None:
    protocol = PROTOCOLS["twicing"]
    assert (protocol.batch_size, protocol.warm_ups, protocol.repeats, protocol.trains) == (1, 1000, 1000, False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--counts-only", "--ratio-to", "softmax"), "--counts-only measures nothing"),
        (("--counts-only", "--input-shape", "3,x"), "--input-shape must be whole numbers"),
        (("--ratio-to", "softmaxx"), "unknown model or attention 'softmaxx'"),
        (("--tokens", "64"), "--tokens is of --growth"),
        (("--growth", "--tokens", "64,0"), "--tokens must be whole numbers from 1 to 65,536"),
        (("--growth", "--ratio-to", "softmax"), "--growth is of single layers of tokens"),
        (("--growth", "softmaxx"), "unknown attention or model 'softmaxx'"),
        (("--device", "cuda:77"), "no device 'cuda:77' on this machine"),
        (("--counts-only", "--input-shape", "3,8,8"), "digits-vit fails on one example of the shape (3, 8, 8)"),
    ],
)
def test_bad_input_is_refused(robench: Robench, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    ended = robench("cost", "digits-vit", *arguments, "--results", tmp_path)
    assert ended.code == 2
    assert message in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_results_that_cannot_be_written_are_named(robench: Robench, tmp_path: Path) -> None:
    (tmp_path / "costs").write_text("")
    ended = robench("cost", "digits-vit", "--batch-size", 1, "--results", tmp_path)
    assert ended.code == 2
    assert f"{tmp_path}/costs" in ended.stderr


def test_growth_is_of_each_mechanism_alone_and_keeps_what_was_left_out(robench: Robench, tmp_path: Path) -> None:
    given = ("cost", "--growth", "softmax", "linformer", "digits-vit", "--tokens", "32,64,96,128,1024")
    ended = robench(*given, "--max-gigabytes", 0.01, "--results", tmp_path, "--json")
    assert ended.code == 0
    found = {each["attention"]: each for each in json.loads(ended.stdout)}
    assert list(found) == ["softmax", "linformer", "digits-vit"]
    assert len(list((tmp_path / "costs").iterdir())) == 3
    for size in found["softmax"]["sizes"]:
        tokens = size["tokens"]
        assert size["multiply_adds"]["products"] == tokens * 4 * 192**2 + 2 * tokens**2 * 192
        assert size["inference"]["seconds"]["median"] > 0
        # At least weights, inputs, queries, keys and values, and weights of attention.
        assert size["inference"]["peak_bytes"] >= 4 * (4 * 192**2 + 4 * tokens * 192 + 3 * tokens**2)
    exponents = found["softmax"]["exponents"]
    assert exponents["tokens"] == [96, 128]
    assert exponents["multiply_adds"]["linear"] == pytest.approx(1)
    assert 1 < exponents["multiply_adds"]["products"] < 2
    assert [each["tokens"] for each in found["softmax"]["left_out"]] == [1024]
    assert "GB predicted, 0.01 GB allowed" in found["softmax"]["left_out"][0]["reason"]
    assert [each["tokens"] for each in found["linformer"]["left_out"]] == [32, 1024]
    assert "at most the 32 tokens" in found["linformer"]["left_out"][0]["reason"]


def test_growth_of_counts_alone_is_a_table_by_rule(robench: Robench, tmp_path: Path) -> None:
    ended = robench("cost", "--growth", "softmax", "--counts-only", "--tokens", "64,128", "--results", tmp_path)
    assert (ended.code, ended.stderr) == (0, "")
    header, softmax, *_ = ended.stdout.split("\n")
    assert header.split() == ["multiply-adds,", "G", "(products)", "64", "128", "exponent"]
    assert softmax.split()[:3] == ["softmax", "0.0110", "0.0252"]
    assert list(tmp_path.iterdir()) == []
