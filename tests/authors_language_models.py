"""Language models in the shape of the papers' authors' code: their names, and their computation written out plainly.

Nothing of robench is used. The classes say that they are of a module ``mem_transformer``, which exists while a model is
saved alone: whoever reads the file cannot import them.
"""

import sys
import types
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

MODULE = "mem_transformer"
VOCABULARY, DIM, HEADS, DEPTH, INNER, CONTEXT = 30, 8, 2, 2, 12, 6
CUTOFFS = (8, 15, 22)


class MultiHeadAttn(nn.Module):
    __module__ = MODULE

    def __init__(self, *, is_symmetric: bool) -> None:
        super().__init__()
        self.n_head, self.pre_lnorm, self.is_symmetric = HEADS, False, is_symmetric
        self.q_net = nn.Linear(DIM, DIM, bias=False)
        self.kv_net = nn.Linear(DIM, 2 * DIM, bias=False)
        self.o_net = nn.Linear(DIM, DIM, bias=False)
        self.layer_norm = nn.LayerNorm(DIM)

    def forward(self, tokens: Tensor) -> Tensor:
        """One token and one head after the other."""
        keys, values = self.kv_net(tokens)[:, :DIM], self.kv_net(tokens)[:, DIM:]
        queries = keys if self.is_symmetric else self.q_net(tokens)
        width, rows = DIM // HEADS, []
        for place in range(len(tokens)):
            row = []
            for start in range(0, DIM, width):
                part = slice(start, start + width)
                scores = keys[: place + 1, part] @ queries[place, part] / width**0.5
                row.append(scores.softmax(0) @ values[: place + 1, part])
            rows.append(torch.cat(row))
        attended: Tensor = self.layer_norm(tokens + self.o_net(torch.stack(rows)))
        return attended


class PositionwiseFF(nn.Module):
    __module__ = MODULE

    def __init__(self) -> None:
        super().__init__()
        self.pre_lnorm = False
        self.CoreNet = nn.Sequential(
            nn.Linear(DIM, INNER), nn.ReLU(inplace=True), nn.Dropout(0.1), nn.Linear(INNER, DIM), nn.Dropout(0.1)
        )
        self.layer_norm = nn.LayerNorm(DIM)

    def forward(self, tokens: Tensor) -> Tensor:
        processed: Tensor = self.layer_norm(tokens + self.CoreNet(tokens))
        return processed


class DecoderLayer(nn.Module):
    __module__ = MODULE

    def __init__(self, *, is_symmetric: bool) -> None:
        super().__init__()
        self.dec_attn = MultiHeadAttn(is_symmetric=is_symmetric)
        self.pos_ff = PositionwiseFF()


class AdaptiveEmbedding(nn.Module):
    __module__ = MODULE

    def __init__(self) -> None:
        super().__init__()
        self.emb_layers = nn.ModuleList([nn.Embedding(VOCABULARY, DIM)])
        self.emb_projs = nn.ParameterList()


class PositionalEmbedding(nn.Module):
    __module__ = MODULE
    inv_freq: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("inv_freq", 1 / 10_000 ** (torch.arange(0, DIM, 2, dtype=torch.float64) / DIM))


class ProjectedAdaptiveLogSoftmax(nn.Module):
    __module__ = MODULE

    def __init__(self, cutoffs: tuple[int, ...]) -> None:
        super().__init__()
        self.cutoffs, self.div_val, self.n_clusters = [*cutoffs, VOCABULARY], 1, len(cutoffs)
        if cutoffs:
            self.cluster_weight = nn.Parameter(torch.zeros(len(cutoffs), DIM))
            self.cluster_bias = nn.Parameter(torch.zeros(len(cutoffs)))
        self.out_layers = nn.ModuleList([nn.Linear(DIM, VOCABULARY)])
        self.out_projs = nn.ParameterList()

    def loss(self, hidden: Tensor, target: int) -> Tensor:
        """Negative log-likelihood of a word, whose cluster i, from 1, is entry -i of the head."""
        logits = self.out_layers[0](hidden)
        ends = [0, *self.cutoffs]
        (cluster,) = [i for i in range(len(ends) - 1) if ends[i] <= target < ends[i + 1]]
        head = logits[: ends[1]]
        if self.n_clusters:
            head = torch.cat([head, self.cluster_weight @ hidden + self.cluster_bias])
        head = head.log_softmax(0)
        if cluster == 0:
            return -head[target]
        tail = logits[ends[cluster] : ends[cluster + 1]].log_softmax(0)
        return -(head[len(head) - cluster] + tail[target - ends[cluster]])


class MemTransformerLM(nn.Module):
    __module__ = MODULE

    def __init__(self, *, is_symmetric: bool = False, cutoffs: tuple[int, ...] = CUTOFFS) -> None:
        super().__init__()
        self.n_token, self.n_head, self.d_head, self.d_model = VOCABULARY, HEADS, DIM // HEADS, DIM
        self.word_emb = AdaptiveEmbedding()
        self.drop = nn.Dropout(0.1)
        self.layers = nn.ModuleList(DecoderLayer(is_symmetric=is_symmetric) for _ in range(DEPTH))
        self.crit = ProjectedAdaptiveLogSoftmax(cutoffs)
        self.crit.out_layers[0].weight = self.word_emb.emb_layers[0].weight
        self.same_length, self.clamp_len, self.no_pos, self.attn_type = False, -1, False, 2
        self.pos_emb = PositionalEmbedding()

    def losses(self, ids: Tensor) -> Tensor:
        """Losses of all words of one window but the first, (T,) of ids (1 + T,)."""
        places = torch.arange(len(ids) - 2, -1, -1, dtype=torch.float64)
        angles = places[:, None] * self.pos_emb.inv_freq
        # robench has single precision.
        positions = torch.cat([angles.sin(), angles.cos()], dim=1).float().double()
        tokens = self.word_emb.emb_layers[0](ids[:-1]) * DIM**0.5 + positions
        for layer in self.layers:
            assert isinstance(layer, DecoderLayer)
            tokens = layer.pos_ff(layer.dec_attn(tokens))
        return torch.stack([self.crit.loss(row, int(word)) for row, word in zip(tokens, ids[1:], strict=True)])

    def sliding_losses(self, ids: Tensor) -> Tensor:
        """Losses of a text: all of the first window, and the last word of each later one."""
        windows = [ids[start : start + CONTEXT + 1] for start in range(len(ids) - CONTEXT)]
        return torch.cat([self.losses(windows[0]), *(self.losses(each)[-1:] for each in windows[1:])])


def made(*, is_symmetric: bool = False, cutoffs: tuple[int, ...] = CUTOFFS) -> MemTransformerLM:
    """Return a model in double precision, of which each number matters."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = MemTransformerLM(is_symmetric=is_symmetric, cutoffs=cutoffs).double().eval()
        for parameter in model.parameters():
            parameter.data = 0.5 * torch.randn_like(parameter)
    return model


def classes_of(model: nn.Module) -> set[type]:
    """Return the classes of a model that are the authors'; a hostile one has parts that are no modules, or itself."""
    seen: dict[int, nn.Module] = {}
    waiting = [model]
    while waiting:
        part = waiting.pop()
        if id(part) not in seen:
            seen[id(part)] = part
            waiting += [each for each in part._modules.values() if isinstance(each, nn.Module)]
    return {type(part) for part in seen.values() if type(part).__module__ == MODULE}


def save_whole(model: nn.Module, path: Path, *, is_zip: bool = True) -> Path:
    """Save a model as its authors do; its classes can be imported by nobody afterwards."""
    module = types.ModuleType(MODULE)
    for each in classes_of(model):
        setattr(module, each.__name__, each)
    sys.modules[MODULE] = module
    try:
        with warnings.catch_warnings():
            # In the older form torch saves the classes' source too, which no file has.
            warnings.simplefilter("ignore")
            torch.save(model, path, _use_new_zipfile_serialization=is_zip)
    finally:
        del sys.modules[MODULE]
    return path
