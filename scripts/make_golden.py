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
]
DEFAULTS = dict(batch=1, heads_q=2, heads_kv=1, d=4, d_v=4, causal=0, window_left=-1,
                window_right=-1, dropout=0.0, scale=None, seed=0, offset=0)


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


def visibility(case):
    """Booleans [seq_q, seq_k], from the contract."""
    offset = 0 if case["causal"] == 1 else case["seq_k"] - case["seq_q"]
    at = torch.arange(case["seq_q"])[:, None] + offset
    j = torch.arange(case["seq_k"])[None, :]
    seen = torch.ones(case["seq_q"], case["seq_k"], dtype=torch.bool)
    if case["causal"]:
        seen &= j <= at
    if case["window_left"] >= 0:
        seen &= j >= at - case["window_left"]
    if case["window_right"] >= 0:
        seen &= j <= at + case["window_right"]
    return seen


def attention(case, q, k, v):
    """o [batch, seq_q, heads_q, d_v] and lse [batch, heads_q, seq_q]."""
    group = case["heads_q"] // case["heads_kv"]
    k = k.repeat_interleave(group, dim=2)
    v = v.repeat_interleave(group, dim=2)
    scale = case["scale"]
    scale = np.float32(1) / np.sqrt(np.float32(case["d"])) if scale is None else np.float32(scale)
    s = float(scale) * torch.einsum("bihc,bjhc->bhij", q, k)
    seen = visibility(case)
    # A row without keys: any finite score will do, since its p is multiplied by 0.
    empty = ~seen.any(dim=1, keepdim=True)
    s = s.masked_fill(~seen & ~empty, -torch.inf).masked_fill(empty, 0.0)
    p = torch.softmax(s, dim=-1) * seen
    lse = torch.logsumexp(s, dim=-1).masked_fill(empty[:, 0], -torch.inf)
    return torch.einsum("bhij,bjhc->bihc", p * dropout_factor(case), v), lse


def solve(case, random):
    case = {**DEFAULTS, **case}

    def tensor(*shape):
        values = np.round(random.standard_normal(shape) * 64) / 64
        return torch.tensor(values, dtype=torch.float64, requires_grad=True)

    q = tensor(case["batch"], case["seq_q"], case["heads_q"], case["d"])
    k = tensor(case["batch"], case["seq_k"], case["heads_kv"], case["d"])
    v = tensor(case["batch"], case["seq_k"], case["heads_kv"], case["d_v"])
    grad_o = tensor(case["batch"], case["seq_q"], case["heads_q"], case["d_v"])
    o, lse = attention(case, q, k, v)
    o.backward(grad_o.detach())

    def numbers(t):
        return [x if np.isfinite(x) else None for x in t.detach().flatten().tolist()]

    tensors = dict(q=q, k=k, v=v, grad_o=grad_o, o=o, lse=lse, grad_q=q.grad, grad_k=k.grad,
                   grad_v=v.grad)
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
