#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""crossflash beside PyTorch's attention kernels on one GPU, in one process, on the same tensors.

Needs a GPU, PyTorch, and a build with the HIP backend:

    cmake --preset release -DCROSSFLASH_HIP=NVIDIA && cmake --build --preset release
    bench/peers.py build/release/bin/libcrossflash.so

Clock: device events around as many calls as fill a few milliseconds; warmed up, random data, the
callers take turns, medians. FLOP: forward 4 B H Sq Sk D, half of it under a causal mask; backward
2.5 times forward; whatever a kernel really does. Every result is held against float64 on one head
first: an error above three times the peer's is a failure, and the exit code says so.
"""
import argparse
import ctypes
import json
import math
import statistics
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

FORWARD, BACKWARD = 1, 2
DTYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
TENSORS = ("q", "k", "v", "o", "grad_o", "grad_q", "grad_k", "grad_v")
OPTIONS = ("bias", "alibi", "sink", "mask", "rows_q", "rows_k", "page_table", "random",
           "grad_bias", "grad_sink", "new_k", "new_v", "rotated_q", "cosine", "sine")
SIZES = ("batch", "seq_q", "seq_k", "heads_q", "heads_kv", "d", "d_v")
PEERS = {
    "FlashAttention-2": SDPBackend.FLASH_ATTENTION,
    "cuDNN": SDPBackend.CUDNN_ATTENTION,
    "memory-efficient": SDPBackend.EFFICIENT_ATTENTION,
}


# ---- the C API (include/crossflash/crossflash.h) ------------------------------------------------


class Strides(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("batch", "seq", "head", "dim")]


class ScoreStrides(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("batch", "head", "seq_q", "seq_k")]


class Problem(ctypes.Structure):
    _fields_ = (
        [("struct_size", ctypes.c_size_t), ("passes", ctypes.c_uint32), ("dtype", ctypes.c_int)]
        + [(n, ctypes.c_int64) for n in SIZES]
        + [(name, Strides) for name in TENSORS]
        + [("scale", ctypes.c_float), ("causal", ctypes.c_int)]
        + [("window_left", ctypes.c_int64), ("window_right", ctypes.c_int64)]
        + [("dropout", ctypes.c_float), ("random_on_device", ctypes.c_int32)]
        + [("softcap", ctypes.c_float), ("alibi", ctypes.c_int32)]
        + [(n, ctypes.c_int) for n in ("sink", "bias", "bias_dtype")]
        + [("bias_strides", ScoreStrides)]
        + [("mask", ctypes.c_int32), ("mask_strides", ScoreStrides)]
        + [("rows_q", ctypes.c_int), ("rows_k", ctypes.c_int), ("row_bits", ctypes.c_int32)]
        + [(n, ctypes.c_int64) for n in ("total_q", "total_k", "page_size", "pages")]
        + [("deterministic", ctypes.c_int32)]
        + [(n, Strides) for n in ("new_k", "new_v", "rotated_q")]
        + [("rotary", ctypes.c_int64), ("rotary_pairs", ctypes.c_int)]
        + [("positions", ctypes.c_int64)]
    )


class Buffer(ctypes.Structure):
    _fields_ = [("handle", ctypes.c_void_p), ("offset", ctypes.c_uint64)]


class Args(ctypes.Structure):
    _fields_ = (
        [("struct_size", ctypes.c_size_t)]
        + [(n, Buffer) for n in ("q", "k", "v", "o", "lse", "grad_o", "grad_q", "grad_k", "grad_v")]
        + [("workspace", Buffer), ("seed", ctypes.c_uint64), ("offset", ctypes.c_uint64)]
        + [(n, Buffer) for n in OPTIONS]
        + [("stream", ctypes.c_void_p)]
    )


class DeviceOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t)] + [
        (n, ctypes.c_char_p) for n in ("backend", "variant", "limits")
    ]


class Library:
    def __init__(self, path, backend):
        self.c = ctypes.CDLL(path)
        self.c.crossflash_last_error.restype = ctypes.c_char_p
        self.c.crossflash_plan_describe.restype = ctypes.c_char_p
        self.device = ctypes.c_void_p()
        options = DeviceOptions(ctypes.sizeof(DeviceOptions), backend.encode(), None, None)
        self.check(self.c.crossflash_device_open(ctypes.byref(options), ctypes.byref(self.device)))

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.c.crossflash_last_error().decode())


class Attention:
    """One problem's plan, on tensors [batch, seq, heads, width] of PyTorch's."""

    def __init__(self, library, case, tensors, stream):
        self.library = library
        p = Problem()
        library.c.crossflash_problem_init(ctypes.byref(p))
        p.passes = FORWARD | (BACKWARD if case.backward else 0)
        p.dtype = DTYPES[case.dtype]
        p.batch, p.seq_q, p.seq_k = case.batch, case.seq_q, case.seq_k
        p.heads_q, p.heads_kv, p.d, p.d_v = case.heads, case.heads_kv, case.d, case.d
        p.causal = 2 if case.causal else 0
        p.dropout = case.dropout
        p.deterministic = int(case.deterministic)
        self.plan = ctypes.c_void_p()
        create = library.c.crossflash_plan_create
        library.check(create(library.device, ctypes.byref(p), ctypes.byref(self.plan)))
        self.describe = library.c.crossflash_plan_describe(self.plan).decode()
        self.args = Args(struct_size=ctypes.sizeof(Args), seed=1, stream=stream.cuda_stream)
        self.lse = torch.empty(case.batch, case.heads, case.seq_q, device="cuda")
        for name, tensor in {**tensors, "lse": self.lse}.items():
            setattr(self.args, name, Buffer(tensor.data_ptr(), 0))

    def forward(self):
        self.library.check(self.library.c.crossflash_forward(self.plan, ctypes.byref(self.args)))

    def backward(self):
        self.library.check(self.library.c.crossflash_backward(self.plan, ctypes.byref(self.args)))

    def close(self):
        self.library.c.crossflash_plan_destroy(self.plan)


# ---- what is timed ------------------------------------------------------------------------------


class Case:
    def __init__(self, group, dtype, batch, seq_q, seq_k, heads, heads_kv, d, causal=False,
                 dropout=0.0, backward=True, deterministic=False,
                 peers=("FlashAttention-2", "cuDNN")):
        self.group, self.dtype, self.batch = group, dtype, batch
        self.seq_q, self.seq_k, self.heads, self.heads_kv, self.d = seq_q, seq_k, heads, heads_kv, d
        self.causal, self.dropout, self.backward = causal, dropout, backward
        self.deterministic, self.peers = deterministic, peers

    def flops(self):
        scores = self.batch * self.heads * self.seq_q * self.seq_k
        return 4.0 * scores * self.d / (2 if self.causal else 1)

    def __str__(self):
        type_name = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}[self.dtype]
        text = f"{type_name} d{self.d} {self.batch}x{self.heads}"
        text += f"/{self.heads_kv}" if self.heads_kv != self.heads else ""
        text += f" {self.seq_q}x{self.seq_k}" if self.seq_q != self.seq_k else f" {self.seq_q}"
        text += " causal" if self.causal else " full"
        text += f" dropout {self.dropout}" if self.dropout else ""
        return text + (" deterministic" if self.deterministic else "")


def cases(quick):
    """Training at 16384 tokens and a width of 2048; then f32, dropout, determinism and decoding."""
    lengths = (2048, 16384) if quick else (512, 2048, 4096, 16384)
    for d in (64, 128, 256):
        for causal in (False, True):
            for n in lengths:
                heads = 2048 // d
                yield Case("training", torch.float16, 16384 // n, n, n, heads, heads, d, causal)
    for d in (64, 128):
        heads = 2048 // d
        yield Case("f32", torch.float32, 4, 4096, 4096, heads, heads, d, peers=("memory-efficient",))
    yield Case("dropout", torch.float16, 4, 4096, 4096, 16, 16, 128, dropout=0.1,
               peers=("FlashAttention-2",))
    yield Case("deterministic", torch.float16, 4, 4096, 4096, 16, 16, 128, deterministic=True,
               peers=("FlashAttention-2",))
    for batch, keys in ((16, 8192), (64, 4096), (1, 16384)):
        yield Case("decode", torch.bfloat16, batch, 1, keys, 32, 8, 128, backward=False)


def time_in_turns(calls, repetitions=11):
    """Median milliseconds of each call; every round runs all of them."""
    counts = {}
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]

    def measure(call, count):
        events[0].record()
        for _ in range(count):
            call()
        events[1].record()
        events[1].synchronize()
        return events[0].elapsed_time(events[1]) / count

    for name, call in calls.items():
        measure(call, 3)
        counts[name] = max(1, min(100, math.ceil(4.0 / max(measure(call, 3), 1e-3))))
    times = {name: [] for name in calls}
    for _ in range(repetitions):
        for name, call in calls.items():
            times[name].append(measure(call, counts[name]))
    return {name: statistics.median(t) for name, t in times.items()}


def exact_head(case, q, k, v, do):
    """o, dq, dk, dv of the first batch and key head in float64; do of the group's query heads."""
    group = case.heads // case.heads_kv
    q, k, v = (t[0].double().transpose(0, 1) for t in (q, k, v))
    q, k, v = q[:group].requires_grad_(), k[:1].requires_grad_(), v[:1].requires_grad_()
    s = q @ k.transpose(1, 2) / math.sqrt(case.d)
    if case.causal:
        mask = torch.ones(case.seq_q, case.seq_k, device="cuda", dtype=torch.bool)
        s = s.masked_fill(~mask.tril(case.seq_k - case.seq_q), -math.inf)
    o = s.softmax(-1) @ v
    results = [o]
    if case.backward:
        results += torch.autograd.grad(o, (q, k, v), do[0].double().transpose(0, 1)[:group])
    return [r.detach() for r in results]


def first_head(case, tensors):
    """The same part of results [batch, seq, heads, width]."""
    group = case.heads // case.heads_kv
    return [t[0].transpose(0, 1)[: (group if n < 2 else 1)].double() for n, t in enumerate(tensors)]


def run_case(library, case, stream):
    torch.manual_seed(1)

    def random(seq, heads):
        return torch.randn(case.batch, seq, heads, case.d, device="cuda").to(case.dtype)

    q, do = random(case.seq_q, case.heads), random(case.seq_q, case.heads)
    k, v = random(case.seq_k, case.heads_kv), random(case.seq_k, case.heads_kv)
    t = {"q": q, "k": k, "v": v, "o": torch.empty_like(q), "grad_o": do,
         "grad_q": torch.empty_like(q), "grad_k": torch.empty_like(k), "grad_v": torch.empty_like(v)}
    ours = Attention(library, case, t, stream)
    forward, backward = {"crossflash": ours.forward}, {}
    if case.backward:
        backward["crossflash"] = ours.backward
    results = {}
    ours.forward()
    if case.backward:
        ours.backward()
    gradients = [t["grad_q"], t["grad_k"], t["grad_v"]] if case.backward else []
    results["crossflash"] = [t["o"]] + gradients
    for peer in case.peers:
        pq, pk, pv = (x.transpose(1, 2).detach().requires_grad_(case.backward) for x in (q, k, v))

        def call(pq=pq, pk=pk, pv=pv, peer=peer):
            with sdpa_kernel(PEERS[peer]):
                return F.scaled_dot_product_attention(
                    pq, pk, pv, dropout_p=case.dropout, is_causal=case.causal,
                    enable_gqa=case.heads != case.heads_kv)

        try:
            o = call()
        except RuntimeError as error:
            print(f"  {peer} does not take {case}: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        forward[peer] = call
        results[peer] = [o.transpose(1, 2)]
        if case.backward:
            backward[peer] = lambda o=o, i=(pq, pk, pv): torch.autograd.grad(
                o, i, do.transpose(1, 2), retain_graph=True)
            results[peer] += [g.transpose(1, 2) for g in backward[peer]()]

    entry = {
        "case": str(case), "group": case.group, "plan": ours.describe, "error": {}, "passes": {}}
    if not case.dropout:  # each library drops elements of its own
        exact = exact_head(case, q, k, v, do)
        for name, tensors in results.items():
            entry["error"][name] = [
                float((a - b).abs().max()) for a, b in zip(first_head(case, tensors), exact)]
        peers = [e for name, e in entry["error"].items() if name != "crossflash"]
        entry["right"] = bool(peers) and all(
            e <= 3 * max(p[n] for p in peers) for n, e in enumerate(entry["error"]["crossflash"]))
        del exact
    else:
        entry["right"] = True
    for pass_name, calls in (("forward", forward), ("backward", backward)):
        if calls:
            entry["passes"][pass_name] = time_in_turns(calls)
    ours.close()
    entry["flops"] = case.flops()
    entry["bytes"] = (k.numel() + v.numel()) * k.element_size()
    return entry


def copy_bandwidth():
    """Bytes read and written in a second by the device's own copy."""
    a = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    b = torch.empty_like(a)
    return 2 * a.numel() / (time_in_turns({"copy": lambda: b.copy_(a)})["copy"] * 1e-3)


def report(entries, bandwidth):
    print(f"{'':44} {'':9}" + "".join(f"{name:>18}" for name in ("crossflash", *PEERS)))
    for e in entries:
        for pass_name, times in e["passes"].items():
            scale = 1.0 if pass_name == "forward" else 2.5
            line = f"{e['case']:44} {pass_name:9}"
            for name in ("crossflash", *PEERS):
                if name not in times:
                    line += f"{'-':>18}"
                elif e["group"] == "decode":
                    line += f"{e['bytes'] / times[name] * 1e-6:>13.0f} GB/s"
                else:
                    line += f"{scale * e['flops'] / times[name] * 1e-9:>10.1f} TFLOP/s"
            print(line + ("" if e["right"] else "  WRONG"))
    print(f"\ncopy: {bandwidth * 1e-9:.0f} GB/s")
    groups = {}
    for e in entries:
        for pass_name, times in e["passes"].items():
            for peer in times:
                if peer != "crossflash":
                    key = (e["group"], pass_name, peer)
                    groups.setdefault(key, []).append(times[peer] / times["crossflash"])
    for (group, pass_name, peer), ratios in groups.items():
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{group} {pass_name}: {mean:.3f} times the speed of {peer} "
              f"(geometric mean of {len(ratios)}, {min(ratios):.2f} to {max(ratios):.2f})")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("library", help="the build's libcrossflash.so, libcrossflash_hip.so beside it")
    parser.add_argument("--backend", default="hip:0")
    parser.add_argument("--quick", action="store_true", help="lengths 2048 and 16384 only")
    parser.add_argument("--only", help="a group: training, f32, dropout, deterministic, decode")
    parser.add_argument("--json", metavar="FILE", help="write all figures there too")
    options = parser.parse_args()
    library = Library(options.library, options.backend)
    stream = torch.cuda.Stream()
    entries = []
    with torch.cuda.stream(stream):
        for case in cases(options.quick):
            if options.only in (None, case.group):
                print(f"  {case}", file=sys.stderr, flush=True)
                entries.append(run_case(library, case, stream))
                torch.cuda.empty_cache()
        bandwidth = copy_bandwidth()
    report(entries, bandwidth)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"copy": bandwidth, "cases": entries}, file, indent=1)
    sys.exit(0 if all(e["right"] for e in entries) else 1)


if __name__ == "__main__":
    main()
