#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How reports of kernels' resources are kept and read. usage: resources.py FOLDER-OF-THE-SCRIPTS"""
import os
import subprocess
import sys
import tempfile
import unittest

FOLDER = sys.argv.pop(1)

REMARKS = """In file included from unit.hip:5:
a.h:7:1: remark: Function Name: _Z6kernelPf [-Rpass-analysis=kernel-resource-usage]
    7 | __global__ void kernel(float* x) {
      | ^
a.h:7:1: remark:     VGPRs: 96 [-Rpass-analysis=kernel-resource-usage]
a.h:7:1: remark:     AGPRs: 4 [-Rpass-analysis=kernel-resource-usage]
a.h:7:1: remark:     ScratchSize [bytes/lane]: SCRATCH [-Rpass-analysis=kernel-resource-usage]
a.h:7:1: remark:     Occupancy [waves/SIMD]: 5 [-Rpass-analysis=kernel-resource-usage]
a.h:7:1: remark:     VGPRs Spill: 0 [-Rpass-analysis=kernel-resource-usage]
a.h:7:1: remark:     LDS Size [bytes/block]: 256 [-Rpass-analysis=kernel-resource-usage]
6 remarks generated when compiling for gfx942.
"""
PTXAS = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z6kernelPf' for 'sm_80'
ptxas info    : Function properties for _Z6kernelPf
    SCRATCH bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 128 registers, used 1 barriers, 256 bytes smem, 364 bytes cmem[0]
"""


class Resources(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def record(self, said, unit, exit_code=0):
        """Lets a compiler that says this be recorded."""
        with open(self.path("said"), "w") as file:
            file.write(said)
        return subprocess.run(
            [sys.executable, os.path.join(FOLDER, "record.py"), "sh", "-c",
             f'cat "$0" >&2; exit {exit_code}', self.path("said"), "-o", self.path(unit)],
            stderr=subprocess.PIPE, text=True)

    def table(self, *units):
        return subprocess.run(
            [sys.executable, os.path.join(FOLDER, "table.py"), *map(self.path, units)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def row(self, text, arch):
        return next(line.split() for line in text.splitlines() if line.startswith(arch))

    def test_both_compilers_in_one_table(self):
        self.record(REMARKS.replace("SCRATCH", "0"), "unit_gfx942_forward_f16.o")
        self.record(PTXAS.replace("SCRATCH", "0"), "unit_sm_80_forward_f16.o")
        table = self.table("unit_gfx942_forward_f16.o", "unit_sm_80_forward_f16.o")
        self.assertEqual(table.returncode, 0, table.stderr)
        self.assertEqual(self.row(table.stdout, "gfx942"),
                         ["gfx942", "96", "4", "256", "0", "0", "5", "kernel"])
        self.assertEqual(self.row(table.stdout, "sm_80"),
                         ["sm_80", "128", "0", "256", "0", "0", "16", "kernel"])

    def test_scratch_memory_is_an_error(self):
        for report, unit in (REMARKS, "unit_gfx942_x.o"), (PTXAS, "unit_sm_80_x.o"):
            self.record(report.replace("SCRATCH", "16"), unit)
            table = self.table(unit)
            self.assertEqual(table.returncode, 1)
            self.assertIn("uses 16 bytes of scratch memory", table.stderr)

    def test_no_kernel_is_an_error(self):
        self.record("", "unit_sm_80_x.o")
        self.assertEqual(self.table("unit_sm_80_x.o").returncode, 1)

    def test_what_else_a_compiler_says_is_passed_on(self):
        warning = "In file included from unit.hip:5:\nb.h:1:1: warning: unused\n    1 | int x;\n"
        run = self.record(REMARKS + warning, "unit_gfx942_x.o", exit_code=3)
        self.assertEqual(run.returncode, 3)
        self.assertEqual(run.stderr, warning)
        self.assertFalse(os.path.exists(self.path("unit_gfx942_x.o.resources")))


unittest.main()
