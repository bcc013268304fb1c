"""Page of examples: what models were given, clean and under each condition, and what they answered.

Images are drawn as they are, changed words of texts and changed tokens are marked, and channels of time series are
lines, the clean ones in grey. Without its script the page is a list; with it, examples are filtered by what fooled
which model, and what did not.

Answers that are masks are below their images, in the colours of a legend. They are not right or wrong as a whole, so
that examples are sorted by how many right pixels a condition took.
"""

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from html import escape
from itertools import groupby

import numpy as np

from robench.core.errors import UsageError
from robench.core.inert import clipped, printable
from robench.domains import DOMAINS
from robench.exports.masks import COLOURS, Mask, classes_in, hex_of, indexed, name_of
from robench.exports.pictures import Pictured, Shot, image_of, png_of
from robench.reports.page import page_of

# In units of the picture of a time series; longer series are thinned to this many steps.
_WIDTH, _HEIGHT, _STEPS = 220, 110, 440
# Number of words of a text that are shown.
_LONGEST = 600
_BODY = """\
<main>
<div id="tools" class="tools" role="search" aria-label="Examples" hidden></div>
<p id="status" class="status" role="status"></p>
{legend}<div id="examples">
{examples}</div>
</main>
"""


def render_view(title: str, models: Mapping[str, Sequence[Pictured]]) -> str:
    """Return the page as HTML; equal content gives equal bytes.

    Args:
        title: heading.
        models: the same examples, in the same order and under the same conditions, by the name of the model.

    Raises:
        UsageError: there are no examples, or the inputs of their domain cannot be shown.
    """
    first = next(iter(models.values()), ())
    if not first:
        raise UsageError("there are no examples to show")
    if not DOMAINS[first[0].domain].shown_as:
        raise UsageError(f"examples of {first[0].domain} cannot be shown: their domain states no 'shown_as'")
    if any([_described(each) for each in examples] != [*map(_described, first)] for examples in models.values()):
        raise UsageError("the models were given different examples or conditions, which share no page")
    if any(example.masks for example in first):
        models = _by_drop(models)
        first = next(iter(models.values()))
    attempts = [(model, shot.name) for model in models for shot in first[0].shots]
    articles = "".join(_article(models, place) for place in range(len(first)))
    data = {
        "attempts": [f"{clipped(model)}: {clipped(name)}" for model, name in attempts],
        "examples": [_facts(models, place) for place in range(len(first))],
    }
    return page_of(
        title,
        _BODY.format(legend=_legend(models), examples=articles),
        data,
        package="robench.exports",
        styles=("view.css",),
        scripts=("view.js",),
        has_images=True,
    )


def is_fooled(example: Pictured, shot: Shot) -> bool | None:
    """Return whether a condition turned a right answer into a wrong one; None where answers are not right or wrong."""
    if example.clean.is_right is None or shot.is_right is None:
        return None
    return example.clean.is_right and not shot.is_right


def drop_of(example: Pictured, shot: Shot) -> float | None:
    """Return the proportion of right pixels that a condition took, below 0 if it gave some; None if unknown."""
    if example.clean.proportion is None or shot.proportion is None:
        return None
    return example.clean.proportion - shot.proportion


def _by_drop(models: Mapping[str, Sequence[Pictured]]) -> dict[str, list[Pictured]]:
    """Return the examples, sorted by the most right pixels that a condition took from any model."""

    def largest(place: int) -> float:
        of_models = [examples[place] for examples in models.values()]
        return max((drop_of(each, shot) or 0.0 for each in of_models for shot in each.shots), default=0.0)

    places = sorted(range(len(next(iter(models.values())))), key=largest, reverse=True)
    return {model: [examples[place] for place in places] for model, examples in models.items()}


def _legend(models: Mapping[str, Sequence[Pictured]]) -> str:
    """Return the colours and names of the classes in all masks as HTML, empty without masks."""
    every = [example for examples in models.values() for example in examples]
    masks = [mask for example in every for mask in example.masks]
    if not masks:
        return ""
    items = []
    for number in classes_in(masks):
        fill = hex_of(COLOURS[number])
        swatch = f'<svg viewBox="0 0 1 1" aria-hidden="true"><rect width="1" height="1" fill="{fill}"/></svg>'
        items.append(f"<li>{swatch}{escape(clipped(name_of(number, every[0].class_names)))}</li>")
    if any((mask < 0).any() for mask in masks):
        items.append('<li><span class="stripes"></span>not counted</li>')
    return f'<ul class="legend" aria-label="Classes">{"".join(items)}</ul>\n'


def _described(example: Pictured) -> tuple[str, ...]:
    return example.example_id, example.target, *(shot.name for shot in example.shots)


def _facts(models: Mapping[str, Sequence[Pictured]], place: int) -> dict[str, object]:
    """Return words of an example for the search, and for the filters what fooled which model and which was right."""
    of_models = [examples[place] for examples in models.values()]
    first = of_models[0]
    classes = [] if first.true_mask is None else classes_in([first.true_mask])
    words = [first.example_id, first.target, *(name_of(each, first.class_names) for each in classes)]
    return {
        "words": " ".join(words).lower(),
        "drops": [drop_of(each, shot) for each in of_models for shot in each.shots],
        "fooled": [is_fooled(each, shot) for each in of_models for shot in each.shots],
        "right": [each.clean.is_right for each in of_models],
    }


def _article(models: Mapping[str, Sequence[Pictured]], place: int) -> str:
    """Return one example: its clean input, and a table with a row for each model and a column for each condition."""
    of_models = {model: examples[place] for model, examples in models.items()}
    first = next(iter(of_models.values()))
    target = f", class {escape(printable(first.target))}" if first.target else ""
    heads = "".join(f'<th scope="col">{escape(clipped(shot.name))}</th>' for shot in first.shots)
    rows = "".join(_row(model, each) for model, each in of_models.items())
    name = escape(clipped(first.example_id))
    true_mask = _mask_shown(first.true_mask, f"{name}, true mask")
    return (
        f"<article><h2>{name}{target}</h2>\n"
        f'<div class="clean">{_shown(first, first.clean, f"{name}, clean")}{true_mask}</div>\n'
        f'<div class="scroll" role="region" aria-label="{name}" tabindex="0"><table>\n'
        f'<thead><tr><th scope="col">model</th><th scope="col">clean</th>{heads}</tr></thead>\n'
        f"<tbody>\n{rows}</tbody></table></div></article>\n"
    )


def _row(model: str, example: Pictured) -> str:
    mask = _mask_shown(example.clean.mask, escape(clipped(f"{example.example_id}, clean, mask of {model}", 200)))
    cells = [f"<td>{mask}{_answer(example.clean, None)}</td>"]
    for shot in example.shots:
        label = f"{example.example_id} under {shot.name} of {model}"
        shown = _shown(example, shot, escape(clipped(label, 200)))
        shown += _mask_shown(shot.mask, escape(clipped(f"{label}: mask", 200)))
        cells.append(f"<td>{shown}{_answer(shot, is_fooled(example, shot))}</td>")
    return f'<tr><th scope="row">{escape(clipped(model))}</th>{"".join(cells)}</tr>\n'


def _answer(shot: Shot, fooled: bool | None) -> str:
    """Return an answer in words: what it is, whether it is right, and how far the input was moved."""
    verdict = {True: "right", False: "wrong", None: ""}[shot.is_right]
    kind = "fooled" if fooled else verdict
    words = [escape(printable(shot.answer)), kind]
    if shot.num_changed:
        words.append(f"{shot.num_changed} changed")
    elif shot.linf is not None and (fooled is not None or (shot.linf and shot.proportion is not None)):
        words.append(f"moved by {shot.linf:.3g}")
    return f'<p class="answer {kind}">{"; ".join(word for word in words if word)}</p>'


def _shown(example: Pictured, shot: Shot, label: str) -> str:
    """Return an input of an example as HTML, with its differences from the clean one; ``label`` is escaped."""
    kind, clean = DOMAINS[example.domain].shown_as, example.clean
    if kind == "image":
        address = base64.b64encode(png_of(image_of(shot.pixels))).decode()
        return f'<img src="data:image/png;base64,{address}" alt="{label}">'
    if kind == "lines":
        return _svg_of(np.asarray(shot.inputs), np.asarray(clean.inputs), label)
    marked = "".join(_marked(_words_of(shot), _words_of(clean)))
    return f'<p class="text" role="group" tabindex="0" aria-label="{label}">{marked}</p>'


def _mask_shown(mask: Mask | None, label: str) -> str:
    """Return a mask as HTML, empty for None; ``label`` is escaped."""
    if mask is None:
        return ""
    address = base64.b64encode(png_of(indexed(mask))).decode()
    return f'<img class="stripes" src="data:image/png;base64,{address}" alt="{label}">'


def _words_of(shot: Shot) -> list[str]:
    """Return the words of a text, each with the white space after it, or the numbers of tokens."""
    if isinstance(shot.inputs, str):
        return re.findall(r"\s*\S+\s*|\s+", shot.inputs)
    return [f"{number} " for number in np.ravel(shot.inputs)]


def _marked(words: Sequence[str], clean: Sequence[str]) -> Iterator[str]:
    """Yield words as HTML, changed and added ones as ``mark`` and lost ones as ``del``.

    Texts of as many words are compared word by word, others by their longest common parts. What follows after the first
    ``_LONGEST`` words is left out, and counted.
    """
    place = 0
    for is_equal, before, now in _parts(words, clean):
        if place < _LONGEST:
            text = _html("".join(now[: _LONGEST - place] or before))
            yield text if is_equal else f"<mark>{text}</mark>" if now else f"<del>{text}</del>"
        place += len(now)
    if place > _LONGEST:
        yield f" … ({place - _LONGEST:,} more words)"


def _parts(words: Sequence[str], clean: Sequence[str]) -> Iterator[tuple[bool, Sequence[str], Sequence[str]]]:
    """Yield equal and different parts of two texts, in order."""
    if len(words) == len(clean):
        pairs = zip(clean, words, strict=True)
        for is_equal, part in groupby(pairs, key=lambda pair: pair[0] == pair[1]):
            before, now = zip(*part, strict=True)
            yield is_equal, before, now
    else:
        for tag, start, stop, first, last in SequenceMatcher(None, clean, words).get_opcodes():
            yield tag == "equal", clean[start:stop], words[first:last]


def _html(text: str) -> str:
    """Return text with its line ends, and all else that is invisible escaped."""
    return "\n".join(escape(printable(line)) for line in text.split("\n"))


def _svg_of(series: np.ndarray, clean: np.ndarray, label: str) -> str:
    """Return a time series (T, C) as one SVG element, a line a channel, over the lines of the clean one."""
    low, high = min(float(each.min()) for each in (clean, series)), max(float(each.max()) for each in (clean, series))
    height = _HEIGHT / (high - low) if high > low else 0.0
    lines = []
    for kind, each in (("before", clean), ("now", series)):
        places = np.unique(np.linspace(0, len(each) - 1, min(len(each), _STEPS)).astype(int))
        xs = places * (_WIDTH / max(len(each) - 1, 1))
        for channel in range(each.shape[1]):
            ys = _HEIGHT - (each[places, channel] - low) * height
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))
            lines.append(f'<polyline class="{kind}" points="{points}"/>')
    return f'<svg viewBox="-2 -2 {_WIDTH + 4} {_HEIGHT + 4}" role="img" aria-label="{label}">{"".join(lines)}</svg>'
