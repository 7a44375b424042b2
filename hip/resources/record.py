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
    report, rest, including = [], [], []
    in_report = False
    for line in text.splitlines():
        if line.startswith("In file included from"):
            including.append(line)  # belongs to the message that follows
            continue
        if REPORT.search(line):
            in_report = True
        elif in_report and (QUOTE.match(line) or re.match(r"^\s+\d+ bytes stack frame", line)):
            pass
        else:
            in_report = False
        counts = re.match(r"^\d+ remarks? generated", line)
        (report if in_report or counts else rest).extend(including + [line])
        including = []
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
