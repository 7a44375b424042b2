#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a compiler and keeps what it reports of kernels' resources in <object>.resources.

usage: record.py COMPILER ARGUMENT... -o OBJECT ...

All else that the compiler says goes to stderr as it came; its exit code is this program's.
"""
import re
import subprocess
import sys

REPORT = re.compile(r"\[-Rpass-analysis=kernel-resource-usage\]|^ptxas info")
# A remark of clang quotes the source line and points into it.
QUOTE = re.compile(r"^\s*\d*\s*\|")


def split(text):
    """The lines that report resources, and the others."""
    report, rest = [], []
    in_report = False
    for line in text.splitlines():
        if REPORT.search(line):
            in_report = True
            report.append(line)
        elif in_report and (QUOTE.match(line) or re.match(r"^\s+\d+ bytes stack frame", line)):
            report.append(line)
        else:
            # "3 remarks generated when compiling for gfx942." names the architecture.
            in_report = False
            (report if re.match(r"^\d+ remarks? generated", line) else rest).append(line)
    return report, rest


def main(arguments):
    compiler = subprocess.run(arguments, stderr=subprocess.PIPE, text=True, errors="replace")
    report, rest = split(compiler.stderr)
    if rest:
        print("\n".join(rest), file=sys.stderr)
    if compiler.returncode == 0 and "-o" in arguments:
        with open(arguments[arguments.index("-o") + 1] + ".resources", "w") as file:
            file.write("\n".join(report) + "\n")
    return compiler.returncode


sys.exit(main(sys.argv[1:]))
