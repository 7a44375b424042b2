#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints what each kernel takes on each architecture, from the reports that record.py has kept.

usage: table.py [--output FILE] [--allow-scratch] OBJECT...

Registers, shared memory (LDS) that is fixed at compile time, bytes of scratch memory for each thread,
registers spilled, and occupancy as far as registers and fixed shared memory limit it: waves of a SIMD
on AMD, warps of a multiprocessor on NVIDIA. A kernel with scratch memory is an error; registers that
spill without it went to other registers.
"""
import argparse
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass


@dataclass
class Kernel:
    arch: str
    symbol: str
    registers: int = 0
    accumulators: int = 0
    shared: int = 0
    scratch: int = 0
    spills: int = 0
    occupancy: int = 0


def warps_by_registers(registers):
    """Warps of a multiprocessor with 65536 registers, handed out to warps in units of 256."""
    return min(64, 65536 // (-(-registers * 32 // 256) * 256)) if registers else 64


def parse_ptxas(text):
    kernels, current = [], None
    for line in text.splitlines():
        if found := re.search(r"Compiling entry function '(\S+)' for '(\S+)'", line):
            current = Kernel(found[2], found[1])
            kernels.append(current)
        elif current is None:
            continue
        elif found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores", line):
            current.scratch, current.spills = int(found[1]), int(found[2])
        elif found := re.search(r"Used (\d+) registers", line):
            current.registers = int(found[1])
            current.occupancy = warps_by_registers(current.registers)
            shared = re.search(r"(\d+) bytes smem", line)
            current.shared = int(shared[1]) if shared else 0
    return kernels


def parse_remarks(text, arch):
    fields = {"VGPRs": "registers", "AGPRs": "accumulators", "LDS Size": "shared",
              "ScratchSize": "scratch", "VGPRs Spill": "spills", "Occupancy": "occupancy"}
    kernels = []
    for line in text.splitlines():
        if found := re.search(r"Function Name: (\S+)", line):
            kernels.append(Kernel(arch, found[1]))
        elif found := re.search(r"remark:\s+([A-Za-z ]+?)(?: \[[^\]]*\])?: (\d+)", line):
            if kernels and found[1] in fields:
                setattr(kernels[-1], fields[found[1]], int(found[2]))
    return kernels


def read_report(path):
    with open(path) as file:
        text = file.read()
    arch = re.search(r"unit_(gfx\w+?)_", path)
    return parse_remarks(text, arch[1]) if arch else parse_ptxas(text)


def demangle(kernels):
    """Readable names, without namespaces and parameters."""
    tool = next(filter(None, map(shutil.which, ("c++filt", "llvm-cxxfilt", "llvm-cxxfilt-22"))), None)
    if tool is None or not kernels:
        return
    names = subprocess.run([tool], input="\n".join(k.symbol for k in kernels), text=True,
                           stdout=subprocess.PIPE, check=True).stdout.splitlines()
    for kernel, name in zip(kernels, names):
        name = re.sub(r"\(anonymous namespace\)::|\b\w+::", "", name)
        name = re.sub(r"^void ", "", name)
        name = re.sub(r"\((?:float|int|unsigned int|long|bool|\w+)\)(?=-?\w)", "", name)
        kernel.symbol = name[:name.rindex("(")] if name.endswith(")") else name


def format_table(kernels):
    head = ("arch", "registers", "acc", "shared", "scratch", "spills", "occupancy", "kernel")
    rows = [head] + [(k.arch, str(k.registers), str(k.accumulators), str(k.shared), str(k.scratch),
                      str(k.spills), str(k.occupancy), k.symbol) for k in kernels]
    widths = [max(len(row[n]) for row in rows) for n in range(len(head) - 1)]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:])]
        lines.append("  ".join(cells + [row[-1]]))
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", help="file for the table, besides stdout")
    parser.add_argument("--allow-scratch", action="store_true", help="warn of scratch memory, not fail")
    parser.add_argument("objects", nargs="+")
    options = parser.parse_args()
    kernels = [kernel for path in options.objects for kernel in read_report(path + ".resources")]
    if not kernels:
        print("table.py: the compiler reported no kernel", file=sys.stderr)
        return 1
    demangle(kernels)
    kernels.sort(key=lambda k: (k.arch, k.symbol))
    table = format_table(kernels)
    print(table, end="")
    spilling = [k for k in kernels if k.scratch > 0]
    for k in spilling:
        print(f"{'warning' if options.allow_scratch else 'error'}: {k.symbol} on {k.arch} uses {k.scratch} bytes of scratch memory for each thread "
              f"and spills {k.spills}", file=sys.stderr)
    print(f"{len(kernels)} kernels, {len(spilling)} with scratch memory")
    if spilling and not options.allow_scratch:
        return 1
    if options.output:
        with open(options.output, "w") as file:
            file.write(table)
    return 0


sys.exit(main())
