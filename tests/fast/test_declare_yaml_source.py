"""The strict reader of YAML."""

import os
from fractions import Fraction
from pathlib import Path

import pytest

from robench.core.errors import DeclarationError, UsageError
from robench.declare import yaml_source
from robench.declare.document import UNREADABLE, Document, Number
from robench.declare.yaml_source import document_from_yaml, read_yaml


def read(text: str | bytes) -> Document:
    content = text.encode() if isinstance(text, str) else text
    return document_from_yaml(content, "file.yaml")


def messages(text: str) -> list[str]:
    return [str(problem) for problem in read(text).problems]


def refusal(text: str | bytes) -> str:
    with pytest.raises(DeclarationError) as caught:
        read(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("20", 20),
        ("-3", -3),
        ("+3", 3),
        ("0", 0),
        ("0.03", Number("0.03")),
        ("1e-3", Number("1e-3")),
        ("1E5", Number("1E5")),
        (".5", Number(".5")),
        ("5.", Number("5.")),
        ("8/255", "8/255"),
        ("3%", "3%"),
        ("'20'", "20"),
        ('"true"', "true"),
    ],
)
def test_scalars_are_read_by_the_core_schema(text: str, value: object) -> None:
    met = read(f"a: {text}").at("a")
    assert (type(met), met) == (type(value), value)


@pytest.mark.parametrize("text", ["no", "yes", "on", "off", "y", "12:30:45", "1_000", "2026-11-21", "1e", "e5", "--3"])
def test_what_only_yaml_1_1_converts_stays_text(text: str) -> None:
    document = read(f"a: {text}")
    assert document.at("a") == text
    assert document.problems == ()


@pytest.mark.parametrize("text", ["010", "-010", "00", "0x10", "0o17", "0123456789"])
def test_numbers_that_readers_of_yaml_disagree_on_are_refused(text: str) -> None:
    wanted = f"line 1: a: must be a decimal number without leading zeros, or text in quotes, got {text}"
    assert messages(f"a: {text}") == [wanted]
    assert read(f"a: {text}").at("a") is UNREADABLE
    assert read(f"a: '{text}'").at("a") == text


@pytest.mark.parametrize(
    "text", [".inf", "-.Inf", ".NaN", "1e999999999", "1" * 65, "9" * 50 + "e299", "1e309", "1e" + "9" * 5000]
)
def test_numbers_beyond_reason_are_refused(text: str) -> None:
    (message,) = messages(f"a: {text}")
    assert message.startswith("line 1: a: must be a finite number of reasonable size")
    assert len(message) < 200


@pytest.mark.parametrize(
    ("text", "exact"),
    [("0.03", Fraction(3, 100)), ("1e-3", Fraction(1, 1000)), ("2.50e+1", Fraction(25)), ("-0.1", Fraction(-1, 10))],
)
def test_numbers_are_exact(text: str, exact: Fraction) -> None:
    number = read(f"a: {text}").at("a")
    assert isinstance(number, Number)
    assert Fraction(number.text) == exact
    assert number.nearest == float(text)


def test_a_key_given_twice_is_a_problem_that_names_both_lines() -> None:
    text = "a: 1\nb: 2\n\na: 3\n"
    assert messages(text) == ["line 4: a: the key 'a' is given twice, on line 1 and on line 4; keep one"]
    assert read(text).value == {"a": 1, "b": 2}


def test_a_key_given_three_times_in_a_nested_mapping_is_two_problems() -> None:
    document = read("top:\n  - {x: 1, x: 2,\n     x: 3}\n")
    place = ("top", 0, "x")
    assert [(problem.place, problem.line) for problem in document.problems] == [(place, 2), (place, 3)]


def test_aliases_are_refused_and_have_no_value() -> None:
    document = read("a: &x 1\nb: *x\n")
    assert [str(problem) for problem in document.problems] == [
        "line 1: a: anchors are not allowed (&x); leave it out",
        "line 2: b: aliases are not allowed (*x); write the value out",
    ]
    assert document.value == {"a": 1, "b": UNREADABLE}


def test_an_alias_of_nothing_and_an_anchor_used_twice_are_refused_alike() -> None:
    assert messages("a: *nothing") == ["line 1: a: aliases are not allowed (*nothing); write the value out"]
    assert len(messages("a: &x 1\nb: &x 2\n")) == 2


def test_billions_of_laughs_are_a_handful_of_problems() -> None:
    lines = ["l0: &l0 [lol, lol]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 10)]
    document = read("\n".join(lines))
    assert len(document.problems) == 10 + 9 * 9


def test_merge_keys_merge_nothing() -> None:
    assert read("a: {x: 1}\nb: {<<: {y: 2}}\n").at("b") == {"<<": {"y": 2}}


@pytest.mark.parametrize(
    "text",
    [
        "a: !!python/object/apply:os.system [echo]",
        "a: !!python/name:os.system",
        "a: !!python/object/new:dict {x: 1}",
        "a: !!str 3",
        "a: !custom 3",
        "a: ! x",
        "a: !!binary aGVsbG8=",
        "a: !!set {x, y}",
    ],
)
def test_tags_are_refused_and_their_values_never_made(text: str) -> None:
    document = read(text)
    (problem,) = document.problems
    assert problem.place == ("a",)
    assert problem.message.startswith("tags are not allowed (")
    assert document.at("a") is UNREADABLE


def test_tags_and_aliases_are_refused_as_keys() -> None:
    assert messages("!!str a: 1\n? *x\n: 2\n") == [
        "line 1: tags are not allowed (tag:yaml.org,2002:str); leave it out",
        "line 2: aliases are not allowed (*x); write the value out",
    ]


def test_keys_must_be_text() -> None:
    assert messages("? [a, b]\n: 1\n? {c: 1}\n: 2\n") == ["line 1: keys must be text", "line 3: keys must be text"]


def test_keys_are_the_text_that_stands_there() -> None:
    assert read("1: a\ntrue: b\nnull: c\n'x y': d\n").value == {"1": "a", "true": "b", "null": "c", "x y": "d"}


def test_every_value_knows_its_line() -> None:
    document = read("\n# comment\na: 1\nb:\n  - x\n  - {c: 2,\n     d: 3}\ne: |\n  text\n")
    of_lists = {("b",): 4, ("b", 0): 5, ("b", 1): 6, ("b", 1, "c"): 6, ("b", 1, "d"): 7}
    assert document.lines == {(): 3, ("a",): 3, **of_lists, ("e",): 8}


def test_every_scalar_knows_where_it_stands_in_the_text() -> None:
    document = read("a: one # 1\nb: ['two', 3]\nc:\nd: é\n")
    spans = {place: document.text[start:end] for place, (start, end) in document.spans.items()}
    assert spans == {("a",): "one", ("b", 0): "'two'", ("b", 1): "3", ("c",): "", ("d",): "é"}


@pytest.mark.parametrize("depth", [1, 31, 32])
def test_nesting_up_to_32_levels_is_read(depth: int) -> None:
    assert read("[" * depth + "]" * depth).problems == ()


@pytest.mark.parametrize("text", ["[" * 33 + "]" * 33, "[" * 5000, "- " * 40 + "x", "{a: " * 33 + "1" + "}" * 33])
def test_nesting_deeper_than_32_levels_is_refused(text: str) -> None:
    assert "nested deeper than 32 levels" in refusal(text)


def test_files_larger_than_one_mebibyte_are_refused() -> None:
    fits = "a: '" + "x" * ((1 << 20) - 5) + "'"
    assert len(fits) == 1 << 20
    assert read(fits).problems == ()
    assert "line 1: column 1: a file must be at most 1048576 bytes long" in refusal(fits + "\n")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("/dev/zero", "cannot open /dev/zero: it is a device, not a regular file"),
        ("pipe.yaml", "it is a named pipe, not a regular file; a YAML file was wanted"),
        ("absent.yaml", r"no such file: .*absent\.yaml"),
        ("", "is a folder; a YAML file was wanted"),
        ("nul\0byte.yaml", "cannot open"),
        ("x" * 300 + ".yaml", "cannot open"),
        ("file.txt/below.yaml", "cannot open"),
    ],
)
def test_what_is_no_file_that_can_be_read_is_a_usage_error(tmp_path: Path, name: str, message: str) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "file.txt").write_text("a: 1")
    with pytest.raises(UsageError, match=message):
        read_yaml(tmp_path / name)


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (b"a: 1\nb: caf\xe9\n", "line 2: column 7: cannot be read as UTF-8 (byte 0xe9)"),
        (b"\xff\xfea\x00", "line 1: column 1: cannot be read as UTF-8 (byte 0xff)"),
        ("é: \x07".encode(), "line 1: column 4: cannot be read as YAML: it excludes the character U+0007"),
        (b"a: 1\n\x00", "line 2: column 1: cannot be read as YAML: it excludes the character U+0000"),
        (b"a: [1\nb: 2\n", "line 2: column 2: cannot be read as YAML: while parsing a flow sequence"),
        (b"a: 1\n b: 2\n", "line 2: column 3: cannot be read as YAML: mapping values are not allowed here"),
        (b"a: 'open\n", "line 2: column 1: cannot be read as YAML: while scanning a quoted scalar"),
        (b'a: "\\UFFFFFFFF"', "line 1: column 7: cannot be read as YAML: "),
        (b"%YAML 9.9\n--- 1", "line 1: column 1: cannot be read as YAML: found incompatible YAML document"),
        (b"%YAML 1." + b"1" * 5000 + b"\n--- 1", "line 1: column 9: cannot be read as YAML: "),
        (b"--- 1\n--- 2\n", "line 2: column 1: cannot be read as YAML: expected a single document"),
    ],
)
def test_what_is_no_yaml_is_refused_with_line_and_column(content: bytes, wanted: str) -> None:
    assert refusal(content).startswith(f"file.yaml: 1 problem\n  {wanted}")


def test_half_of_a_surrogate_pair_is_no_text() -> None:
    assert messages('a: "\\ud800"') == ["line 1: a: must be text that UTF-8 can hold, got half of a surrogate pair"]
    assert messages('"\\ud800": 1') == ["line 1: keys must be text"]


@pytest.mark.parametrize("text", ["", "# only a comment\n", "\n\n", "\ufeff"])
def test_an_empty_file_is_a_problem(text: str) -> None:
    assert read(text).value is UNREADABLE
    assert messages(text) == ["line 1: the file is empty"]


def test_an_empty_document_is_null() -> None:
    assert read("---\n...\n").value is None


def test_a_byte_order_mark_and_windows_line_ends_change_nothing() -> None:
    document = read("\ufeffa: 1\r\nb: 0.5\r\n")
    assert document.value == {"a": 1, "b": Number("0.5")}
    assert document.lines[("b",)] == 2


def test_the_same_content_is_read_once_and_another_one_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("entries: {a: [1, two]}\nanchored: &x 1\n")
    yaml_source.compose.cache_clear()
    first, second = read_yaml(path), read_yaml(path)
    assert first is second
    assert yaml_source.compose.cache_info().misses == 1
    assert second.at("entries", "a", 1) == "two"
    assert len(second.problems) == 1
    other = tmp_path / "b.yaml"
    other.write_bytes(path.read_bytes())
    assert (read_yaml(other).source, read_yaml(path).source) == (str(other), str(path))
    path.write_text("entries: {a: [1, three]}\n")
    assert read_yaml(path).at("entries", "a", 1) == "three"
    assert read_yaml(path).problems == ()


def test_keys_and_values_are_counted_before_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_source, "MAX_NODES", 6)
    assert read("a: [1, 2, 3]").problems == ()
    assert "holds more than 6 keys and values" in refusal("a: [1, 2, 3, 4]")
