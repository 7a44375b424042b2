#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/golden/attention.json: attention and its gradients by PyTorch's autograd in float64.

An outside witness for the reference: no line of crossflash takes part. Visibility is written from
the contract, Philox 4x32-10 from its paper, gradients come from autograd. Inputs are multiples of
1/64, exact in every element type. Needs PyTorch and numpy:

    scripts/make_golden.py tests/golden/attention.json
"""

import json
import sys

import numpy as np
import torch

CASES = [
    dict(name="plain", batch=2, seq_q=5, seq_k=7, heads_q=2, heads_kv=2, d=8, d_v=8),
    dict(name="scale", seq_q=4, seq_k=6, heads_q=2, heads_kv=2, d=3, d_v=3, scale=0.7),
    dict(name="causal top-left, fewer queries", seq_q=5, seq_k=9, causal=1),
    dict(name="causal top-left, fewer keys", seq_q=9, seq_k=5, causal=1),
    dict(name="causal bottom-right, fewer queries", seq_q=5, seq_k=9, causal=2),
    dict(name="causal bottom-right, fewer keys", seq_q=9, seq_k=5, causal=2),
    dict(name="window", seq_q=8, seq_k=8, window_left=2, window_right=1),
    dict(name="window that leaves rows without keys", seq_q=9, seq_k=4, window_left=1,
         window_right=0),
    dict(name="window in a top-left mask", seq_q=6, seq_k=9, causal=1, window_left=2),
    dict(name="grouped heads", batch=2, seq_q=4, seq_k=5, heads_q=6, heads_kv=2),
    dict(name="unequal head sizes", seq_q=5, seq_k=6, d=5, d_v=11),
    dict(name="dropout", batch=2, seq_q=5, seq_k=19, heads_q=2, heads_kv=1, dropout=0.3,
         seed=0x0123456789ABCDEF, offset=11),
    dict(name="all at once", batch=2, seq_q=7, seq_k=10, heads_q=4, heads_kv=2, d=5, d_v=3,
         causal=2, window_left=5, dropout=0.2, scale=-0.9, seed=2**63 + 5, offset=2**32 - 1),
    # Options. `bias` and `mask` are axes of bhqk, `lengths` pairs of queries and keys.
    dict(name="softcap", seq_q=5, seq_k=7, softcap=1.5),
    dict(name="softcap that cuts", seq_q=5, seq_k=7, softcap=0.25, scale=-2.0),
    dict(name="bias", batch=2, seq_q=5, seq_k=7, bias="bhqk"),
    dict(name="bias that batches share", batch=2, seq_q=5, seq_k=7, heads_q=4, bias="hqk"),
    dict(name="bias that queries and heads share", batch=2, seq_q=5, seq_k=7, bias="bk"),
    dict(name="bias of query rows", batch=2, seq_q=5, seq_k=7, bias="q", sink=True),
    dict(name="bias with elements that hide", batch=2, seq_q=6, seq_k=5, bias="hqk", hide=True),
    dict(name="alibi", seq_q=5, seq_k=8, heads_q=4, alibi=True),
    dict(name="alibi and a top-left mask", seq_q=5, seq_k=8, heads_q=4, alibi=True, causal=1),
    dict(name="sink", batch=2, seq_q=5, seq_k=7, heads_q=4, sink=True),
    dict(name="sink and rows without keys", seq_q=9, seq_k=5, heads_q=4, sink=True, causal=2),
    dict(name="mask", batch=2, seq_q=5, seq_k=37, mask="bhqk"),
    dict(name="mask of keys", batch=3, seq_q=5, seq_k=37, mask="bk"),
    dict(name="packed", seq_q=9, seq_k=9, lengths=[(3, 7), (0, 4), (9, 9), (5, 0), (2, 1)],
         rows=2, causal=2),
    dict(name="packed, top-left", seq_q=9, seq_k=9, lengths=[(3, 7), (0, 4), (9, 5)], rows=2,
         causal=1, alibi=True),
    dict(name="padded", seq_q=9, seq_k=9, lengths=[(3, 7), (0, 4), (9, 9), (5, 0)], rows=1,
         window_left=3, window_right=1),
    dict(name="packed with all options", seq_q=7, seq_k=8, lengths=[(3, 7), (7, 8), (6, 2), (4, 0)],
         rows=2, causal=2, heads_q=4, heads_kv=2, softcap=2.0, bias="hqk", alibi=True, sink=True,
         mask="bqk", dropout=0.25, seed=99, offset=7),
    dict(name="padded with all options", seq_q=7, seq_k=8, lengths=[(3, 7), (7, 8), (0, 3)], rows=1,
         heads_q=4, heads_kv=2, softcap=3.0, bias="bhqk", alibi=True, sink=True, mask="hk",
         dropout=0.25, seed=100, offset=8, window_left=4),
]
DEFAULTS = dict(batch=1, heads_q=2, heads_kv=1, d=4, d_v=4, causal=0, window_left=-1,
                window_right=-1, dropout=0.0, scale=None, seed=0, offset=0, softcap=0.0, bias="",
                hide=False, alibi=False, sink=False, mask="", rows=0, lengths=[])


def philox(counter, key):
    """Philox 4x32-10 (Salmon et al., SC'11) on Python integers."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def dropout_factor(case):
    """z [batch, heads_q, seq_q, seq_k]: 0 or 1/(1 - p)."""
    p = float(np.float32(case["dropout"]))
    shape = [case[axis] for axis in ("batch", "heads_q", "seq_q", "seq_k")]
    z = torch.ones(shape, dtype=torch.float64)
    if p == 0:
        return z
    key = (case["seed"] & 0xFFFFFFFF, case["seed"] >> 32)
    for b, h, i, j in np.ndindex(*shape):
        words = philox((j // 8, i, b * case["heads_q"] + h, case["offset"]), key)
        draw = words[j // 2 % 4] >> (16 * (j % 2)) & 0xFFFF
        z[b, h, i, j] = 1 / (1 - p) if draw >= round(p * 65536) else 0
    return z


def visibility(case, seq_q, seq_k):
    """Booleans [seq_q, seq_k] and distances of query and key, from the contract."""
    offset = 0 if case["causal"] == 1 else seq_k - seq_q
    at = torch.arange(seq_q)[:, None] + offset
    j = torch.arange(seq_k)[None, :]
    seen = torch.ones(seq_q, seq_k, dtype=torch.bool)
    if case["causal"]:
        seen &= j <= at
    if case["window_left"] >= 0:
        seen &= j >= at - case["window_left"]
    if case["window_right"] >= 0:
        seen &= j <= at + case["window_right"]
    return seen, (at - j).abs().to(torch.float64)


def attention(case, b, q, k, v, bias, alibi, sink, mask, z):
    """o [seq_q, heads_q, d_v] and lse [heads_q, seq_q] of sequence b. bias, mask and z are
    [batch, heads_q, longest seq_q, longest seq_k]."""
    seq_q, seq_k = q.shape[0], k.shape[0]
    group = case["heads_q"] // case["heads_kv"]
    k = k.repeat_interleave(group, dim=1)
    v = v.repeat_interleave(group, dim=1)
    scale = case["scale"]
    scale = np.float32(1) / np.sqrt(np.float32(case["d"])) if scale is None else np.float32(scale)
    s = float(scale) * torch.einsum("ihc,jhc->hij", q, k)
    if case["softcap"]:
        s = case["softcap"] * torch.tanh(s / case["softcap"])
    seen, distance = visibility(case, seq_q, seq_k)
    seen = (seen & mask[b, :, :seq_q, :seq_k]).expand_as(s)
    s = s + bias[b, :, :seq_q, :seq_k] - alibi[:, None, None] * distance
    s = s.masked_fill(~seen, -torch.inf)
    # The sink is one more key, without a value.
    s = torch.cat([s, sink[:, None, None].expand(-1, seq_q, 1)], dim=2)
    # A row that has nothing: any finite score will do, since its p is multiplied by 0.
    empty = (s == -torch.inf).all(dim=2, keepdim=True)
    s = s.masked_fill(empty, 0.0)
    p = (torch.softmax(s, dim=-1) * ~empty)[:, :, :seq_k]
    lse = torch.logsumexp(s, dim=-1).masked_fill(empty[:, :, 0], -torch.inf)
    return torch.einsum("hij,jhc->ihc", p * z[b, :, :seq_q, :seq_k], v), lse


def places(case, side):
    """The first row and the number of rows of each sequence, and the shape [batch, rows]."""
    most = case["seq_q" if side == 0 else "seq_k"]
    lengths = [pair[side] for pair in case["lengths"]] or [most] * case["batch"]
    if case["rows"] != 2:
        return [(b * most, n) for b, n in enumerate(lengths)], (case["batch"], most)
    starts = [2 + sum(lengths[:b]) for b in range(len(lengths))]  # two rows of nobody before
    return list(zip(starts, lengths)), (1, 2 + sum(lengths) + 3)  # and three behind


def solve(case, random):
    case = {**DEFAULTS, **case}
    case["batch"] = len(case["lengths"]) or case["batch"]

    def tensor(*shape):
        values = np.round(random.standard_normal(shape) * 64) / 64
        return torch.tensor(values, dtype=torch.float64, requires_grad=True)

    queries, shape_q = places(case, 0)
    keys, shape_k = places(case, 1)
    q = tensor(*shape_q, case["heads_q"], case["d"])
    k = tensor(*shape_k, case["heads_kv"], case["d"])
    v = tensor(*shape_k, case["heads_kv"], case["d_v"])
    grad_o = tensor(*shape_q, case["heads_q"], case["d_v"])
    scores = [case[axis] for axis in ("batch", "heads_q", "seq_q", "seq_k")]

    def axes(letters):
        return [n if letter in letters else 1 for letter, n in zip("bhqk", scores)]

    tensors = dict(q=q, k=k, v=v, grad_o=grad_o)
    bias = alibi = torch.zeros(1, dtype=torch.float64)
    sink = torch.full((case["heads_q"],), -torch.inf, dtype=torch.float64)
    mask = torch.ones(scores, dtype=torch.bool)
    if case["bias"]:
        tensors["bias"] = tensor(*axes(case["bias"]))
        if case["hide"]:
            hidden = torch.tensor(random.random(tensors["bias"].shape) < 0.3)
            hidden[:, :, 2] = True
            tensors["bias"] = tensors["bias"].detach().masked_fill(hidden, -torch.inf)
            tensors["bias"].requires_grad_()
        bias = tensors["bias"]
    if case["alibi"]:
        alibi = tensors["alibi"] = tensor(case["heads_q"])
    if case["sink"]:
        sink = tensors["sink"] = tensor(case["heads_q"])
    if case["mask"]:
        tensors["mask"] = torch.tensor(random.random(axes(case["mask"])) < 0.6)
        mask = tensors["mask"].expand(scores)

    z = dropout_factor(case)
    bias_of_all = bias.expand(scores)
    alibi = alibi.expand(case["heads_q"])
    o = torch.zeros(*shape_q, case["heads_q"], case["d_v"], dtype=torch.float64)
    lse = torch.full((shape_q[0], case["heads_q"], shape_q[1]), -torch.inf, dtype=torch.float64)
    loss = torch.zeros((), dtype=torch.float64)
    flat = [t.flatten(0, 1) for t in (q, k, v, grad_o)]
    for b, ((at_q, n_q), (at_k, n_k)) in enumerate(zip(queries, keys)):
        own = [flat[0][at_q:at_q + n_q], flat[1][at_k:at_k + n_k], flat[2][at_k:at_k + n_k]]
        o_b, lse_b = attention(case, b, *own, bias_of_all, alibi, sink, mask, z)
        loss = loss + (o_b * flat[3][at_q:at_q + n_q].detach()).sum()
        o.flatten(0, 1)[at_q:at_q + n_q] = o_b.detach()
        batch, row = divmod(at_q, shape_q[1])
        lse[batch, :, row:row + n_q] = lse_b.detach()
    loss.backward()
    tensors.update(o=o, lse=lse, grad_q=q.grad, grad_k=k.grad, grad_v=v.grad)
    if case["bias"]:
        tensors["grad_bias"] = bias.grad
    if case["sink"]:
        tensors["grad_sink"] = sink.grad

    def numbers(t):
        return [x if np.isfinite(x) else None for x in t.detach().double().flatten().tolist()]

    return {**case, "tensors": {name: numbers(t) for name, t in tensors.items()}}


def main():
    assert philox((0, 0, 0, 0), (0, 0)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    random = np.random.default_rng(1)
    with open(sys.argv[1], "w", encoding="ascii") as file:
        file.write("[\n")
        file.write(",\n".join(json.dumps(solve(case, random)) for case in CASES))
        file.write("\n]\n")


if __name__ == "__main__":
    main()
