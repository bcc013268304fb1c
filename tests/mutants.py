"""Mutants of shipped suites and registry entries.

Mutations are seeded and know the structure: a file is read, changed in one to three places, and written again.
"""

import copy
import random
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from robench.core.errors import RobenchError
from robench.declare import shipped_registry, shipped_suites

# Errors of a request or a declaration, and of data or weights that are not there.
REFUSED = {2, 4}

VALUES: tuple[Any, ...] = (
    *(None, True, False, "", " ", "~", "no", "8/255", "8/0", "1e999", "\0", "a\nb", "\x1b[2J", "\u202e", "\ud7ff"),
    *("x" * 5000, "../../etc/passwd", "/dev/zero", "hf-hub:a/b/c", "hf-hub:", "pgd", "vit", "digits", "all", "kind"),
    *(0, 1, -1, 2, 3, 10, 255, 999, 1000, 1001, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**64, 10**60, -(10**60)),
    *(0.0, 0.5, -0.5, 1e-300, 1e300, float("nan"), float("inf"), float("-inf")),
    *([], {}, [[]], [None], {"kind": "clean"}, {"kind": []}, {"": ""}, {"a": {"b": {"c": {}}}}, [0] * 2000),
)  # fmt: skip
KEYS = ("", "kind", "backbone", "name", "epsilon", "epsilons", "num_steps", "batch_size", "depth", "\0", "x" * 300, "é")
RAW = (b"*alias", b"&anchor 1", b"!!python/object/apply:os.system ['x']", b"<<: *a", b"\xff", b"\0", b"\t", b"- " * 40,
       b"? ", b"---\n", b"%YAML 9.9\n", b"'", b'"\\ud800"', b"{" * 50, b": ", b"#")  # fmt: skip


LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def load(content: bytes) -> Any:
    return yaml.load(content, LOADER)  # one of the safe loaders, the faster where there is one


@cache
def seeds_of_mutants() -> tuple[tuple[str, Any], ...]:
    """The shipped suites, cut to a few conditions, and single entries of the shipped registry."""
    found: list[tuple[str, Any]] = []
    for name, path in shipped_suites().items():
        suite = load(path.read_bytes())
        suite["conditions"] = suite["conditions"][:4]
        found.append((name, suite))
    entries = list(load(shipped_registry().read_bytes())["checkpoints"].items())
    found += [(name, {"checkpoints": {name: entry}}) for name, entry in entries]
    return tuple(found)


def places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All places in a nested value but its top."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [deeper for key, item in items for deeper in ((*place, key), *places(item, (*place, key)))]


def at(value: Any, place: tuple[Any, ...]) -> Any:
    for step in place:
        value = value[step]
    return value


def mutate(document: Any, chance: random.Random) -> None:
    """Change one place of a document."""
    found = places(document)
    if not found:
        return
    *above, last = chance.choice(found)
    holder = at(document, tuple(above))
    match chance.randrange(7):
        case 0:
            del holder[last]
        case 1 | 2:
            holder[last] = copy.deepcopy(chance.choice(VALUES))
        case 3 if isinstance(holder, dict):
            holder[chance.choice(KEYS)] = copy.deepcopy(chance.choice(VALUES))
        case 3:
            holder.insert(chance.randrange(len(holder) + 1), copy.deepcopy(chance.choice([*VALUES, *holder])))
        case 4:
            # Of the same document, or of another.
            other = document if chance.random() < 0.5 else chance.choice(seeds_of_mutants())[1]
            holder[last] = copy.deepcopy(at(other, chance.choice(places(other))))
        case 5 if isinstance(holder[last], (int, float)) and not isinstance(holder[last], bool):
            holder[last] = chance.choice([holder[last] * 2, holder[last] + 1, holder[last] - 1, str(holder[last])])
        case 5:
            holder[last] = [copy.deepcopy(holder[last])] * chance.choice([1, 2, 50])
        case 6 if isinstance(holder, dict):
            holder[chance.choice(KEYS)] = holder.pop(last)
        case _:
            holder[last] = str(holder[last])


def mutant(number: int) -> tuple[str, bytes]:
    """The name of what was mutated, and the text of a mutant."""
    chance = random.Random(number)
    name, document = chance.choice(seeds_of_mutants())
    document = copy.deepcopy(document)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        mutate(document, chance)
    content = yaml.dump(document, Dumper=DUMPER, allow_unicode=True, sort_keys=False, width=10**6).encode(
        "utf-8", "surrogatepass"
    )
    if chance.random() < 0.15:
        where = chance.randrange(len(content) + 1)
        content = content[:where] + chance.choice(RAW) + content[where + chance.randrange(3) :]
    return name, content


def check_refusal(path: Path, error: RobenchError) -> None:
    assert error.exit_code in REFUSED, path
    assert len(str(error)) < 40_000
    assert len(str(error).splitlines()) <= 52
    assert all(line.isprintable() for line in str(error).splitlines()), path
