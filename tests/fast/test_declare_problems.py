"""How problems are written."""

import pytest

from robench.core.errors import DeclarationError
from robench.declare.document import Document, Place, Problem, declaration_error, line_of, path_of


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ((), ""),
        (("seed",), "seed"),
        ((0,), "[0]"),
        (("conditions", 1, "perturbation", "num_steps"), "conditions[1].perturbation.num_steps"),
        (("checkpoints", "digits-rpc-symvit", "weights"), "checkpoints.digits-rpc-symvit.weights"),
        (("checkpoints", "vit.tiny"), "checkpoints.vit.tiny"),
        (("a b",), "'a b'"),
        (("x", ""), "x.''"),
        (("x", "\x1b[31m"), "x.'\\x1b[31m'"),
    ],
)
def test_places_are_written_as_paths(place: Place, path: str) -> None:
    assert path_of(place) == path


def test_a_place_without_a_line_has_that_of_the_nearest_around_it() -> None:
    lines: dict[Place, int] = {(): 1, ("a",): 3, ("a", 0): 4}
    assert line_of(("a", 0, "missing"), lines) == 4
    assert line_of(("a", 1), lines) == 3
    assert line_of(("b",), lines) == 1
    assert line_of(("b",), {}) is None


def test_problems_are_listed_by_line_under_their_source() -> None:
    problems = [
        Problem(place=("b",), line=12, message="missing"),
        Problem(place=("a", 0), line=3, message="must be text, got 3"),
        Problem(place=("c",), line=3, message="second on its line"),
    ]
    assert str(declaration_error("suites/x.yaml", problems)) == (
        "suites/x.yaml: 3 problems\n"
        "  line 3: a[0]: must be text, got 3\n"
        "  line 3: c: second on its line\n"
        "  line 12: b: missing"
    )


def test_one_problem_is_counted_in_the_singular_and_without_a_line_where_there_is_none() -> None:
    error = declaration_error("architecture", [Problem(place=("depth",), line=None, message="missing")])
    assert str(error) == "architecture: 1 problem\n  depth: missing"


def test_problems_of_the_whole_have_no_path() -> None:
    assert str(Problem(place=(), line=1, message="the file is empty")) == "line 1: the file is empty"


@pytest.mark.parametrize(
    ("character", "shown"), [("\x1b", "\\x1b"), ("\n", "\\n"), ("\u202e", "\\u202e"), ("\x07", "\\x07"), ("é", "é")]
)
def test_what_a_file_holds_cannot_steer_a_terminal(character: str, shown: str) -> None:
    assert str(Problem(place=(), line=None, message=f"got {character}")) == f"got {shown}"


def test_a_document_without_problems_settles_on_its_value() -> None:
    document = Document(source="x", value={})
    assert document.settle(5, []) == 5


def test_a_document_raises_what_was_wrong_before_and_after_as_one_error() -> None:
    before = Problem(place=("a",), line=9, message="read badly")
    document = Document(source="x", value={}, lines={("b",): 2}, problems=(before,))
    with pytest.raises(DeclarationError) as caught:
        document.settle(5, [document.problem(("b",), "missing")])
    assert str(caught.value) == "x: 2 problems\n  line 2: b: missing\n  line 9: a: read badly"
    with pytest.raises(DeclarationError, match="1 problem\n"):
        document.settle(5, [])


def test_declaration_errors_end_a_command_with_2() -> None:
    assert declaration_error("x", [Problem(place=(), line=None, message="wrong")]).exit_code == 2


def test_of_many_problems_fifty_are_listed_and_all_are_counted() -> None:
    problems = [Problem(place=("a", number), line=number + 1, message="wrong") for number in range(200_006)]
    error = declaration_error("suite.yaml", problems)
    header, *listed, last = str(error).splitlines()
    assert (header, len(listed), last) == ("suite.yaml: 200,006 problems", 50, "  ... and 199,956 more")
    assert error.num_problems == 200_006
    assert str(declaration_error("suite.yaml", problems[:50])).splitlines()[-1] == "  line 50: a[49]: wrong"


def test_a_key_of_any_length_gives_a_short_path() -> None:
    assert path_of(("x" * 10**6, "y")) == f"{'x' * 100}....y"
