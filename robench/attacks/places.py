"""Places of patches: squares chosen by a gradient, by attention, or at random, and the region that remains."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from robench.attacks.attention_losses import mean_received, tokens_changed
from robench.attacks.local import INSTEAD, LocalAscent
from robench.attacks.problem import Problem
from robench.core.errors import ContractError
from robench.core.seeds import Stream


def placed(declaration: LocalAscent, problem: Problem) -> Problem:
    """Return the problem whose region is limited to the declared patches, at places of each image, and to few pixels.

    Passes that choose the places count like all others.

    Raises:
        ContractError: images have no room for the patches, or the model's tokens no places.
    """
    if problem_text := declaration.problem_with_shape(tuple(problem.inputs.shape[1:])):
        raise ContractError(f"{declaration.kind}: {problem_text}")
    region = problem.region
    if declaration.patches is not None:
        scores = PLACES[declaration.place](declaration, problem.within("place").at(search=0, step=0))
        mask = squares(scores, declaration.patches.size, declaration.patches.count, problem.inputs.shape[-2:])
        region = region.only(mask[:, None].expand_as(problem.inputs))
    if declaration.l0 is not None:
        region = replace(region, most=declaration.l0.count, of_pixels=declaration.l0.unit == "pixels")
    return problem if region is problem.region else replace(problem, region=region)


def squares(scores: Tensor, size: int, count: int, sides: torch.Size) -> Tensor:
    """Return a mask (B, H, W) of squares, from the scores of their top left corners, (B, H - size + 1, W - size + 1).

    Squares are taken from the best on; one that overlaps an earlier one only if no other is left. All are different.
    """
    rows = torch.arange(scores.shape[1], device=scores.device)[None, :, None]
    columns = torch.arange(scores.shape[2], device=scores.device)[None, None, :]
    down, right = torch.arange(sides[0], device=scores.device), torch.arange(sides[1], device=scores.device)
    mask = torch.zeros((len(scores), *sides), dtype=torch.bool, device=scores.device)
    # Each overlap lowers a score below all others without one.
    scores = scores - scores.amin((1, 2), keepdim=True)
    penalty = scores.amax((1, 2), keepdim=True) + 1
    for _ in range(count):
        best = scores.flatten(1).argmax(1)
        top, left = (each[:, None, None] for each in (best // scores.shape[2], best % scores.shape[2]))
        is_row = (down[None, :, None] >= top) & (down[None, :, None] < top + size)
        mask |= is_row & (right[None, None, :] >= left) & (right[None, None, :] < left + size)
        overlaps = ((rows - top).abs() < size) & ((columns - left).abs() < size)
        scores = scores - penalty * overlaps - count * penalty * ((rows == top) & (columns == left))
    return mask


def by_gradient(declaration: LocalAscent, problem: Problem) -> Tensor:
    """Return the sum of the absolute gradient at the clean inputs within each square, as scores."""
    loss = problem.task.objective
    gradient = problem.differentiate(problem.inputs, loss).gradient().abs().sum(1, keepdim=True)
    assert declaration.patches is not None  # only patches have places
    return avg_pool2d(gradient, declaration.patches.size, stride=1)[:, 0]


def at_random(declaration: LocalAscent, problem: Problem) -> Tensor:
    """Return uniform scores, so that each place is as likely as any other."""
    assert declaration.patches is not None  # only patches have places
    sides = [side - declaration.patches.size + 1 for side in problem.inputs.shape[-2:]]
    return problem.draws.uniform(Stream(purpose="place"), sides)


def by_attention(declaration: LocalAscent, problem: Problem) -> Tensor:
    """Return the attention that tokens receive, as scores of the squares at their centres; no score for other squares.

    Tokens that no pixel changes, such as a class token, have no place. The others are those of a grid with the
    proportions of the image, row by row.
    """
    assert declaration.patches is not None  # only patches have places
    (score,) = problem.look(problem.inputs, mean_received(declaration.place_layer))
    is_place = tokens_changed(problem, None).any(0)
    score = score[:, is_place]
    height, width = problem.inputs.shape[-2:]
    grid = grid_of(score.shape[1], height, width)
    size, (num_rows, num_columns) = declaration.patches.size, grid
    # Squares without a token come last, by each image's own scores.
    lowest = (score.amin(1) - 1)[:, None, None]
    corners = lowest.repeat(1, height - size + 1, width - size + 1)
    for token in range(score.shape[1]):
        row, column = divmod(token, num_columns)
        top = _corner(row, num_rows, height, size)
        left = _corner(column, num_columns, width, size)
        corners[:, top, left] = torch.maximum(corners[:, top, left], score[:, token])
    return corners


def _corner(place: int, count: int, side: int, size: int) -> int:
    """Return the first pixel of a square around the centre of a cell of a grid along one side."""
    return min(max((2 * place + 1) * side // (2 * count) - size // 2, 0), side - size)


def grid_of(num_tokens: int, height: int, width: int) -> tuple[int, int]:
    """Return rows and columns of a grid with so many tokens and the proportions of an image; raises ContractError."""
    for num_rows in range(1, num_tokens + 1):
        if num_tokens % num_rows == 0 and num_rows * num_rows * width == num_tokens * height:
            return num_rows, num_tokens // num_rows
    raise ContractError(
        f"{num_tokens} tokens do not form a grid with the proportions of {height} x {width} pixels; {INSTEAD}"
    )


PLACES: Mapping[str, Callable[[LocalAscent, Problem], Tensor]] = {
    "gradient": by_gradient,
    "attention": by_attention,
    "random": at_random,
}
