"""scripts/run-tests: whatever a test program prints and however it ends, no failure is lost and none is invented."""

import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import tap

SCRIPT = str(pathlib.Path(__file__).parents[2] / "scripts" / "run-tests")
loader = importlib.machinery.SourceFileLoader("run_tests", SCRIPT)
run_tests = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_tests", loader))
loader.exec_module(run_tests)


def program(stdout, result="OK", returncode=0):
    return run_tests.Program(
        {"name": "kuno:unit / x", "duration": 1.0, "stdout": stdout, "result": result, "returncode": returncode}
    )


class Counting(unittest.TestCase):
    def test_each_case_of_a_tap_program_counts(self):
        shown = program("1..3\nok 1 - a\nnot ok 2 - b\n# 1 != 2\nok 3 - c\n", "FAIL", 1)
        self.assertEqual((shown.passed, shown.failed, shown.skipped), (["a", "c"], ["b"], []))

    def test_two_groups_in_one_program_add_up(self):
        shown = program("1..1\nok 1 - a\n# ok - one\n1..2\nok 1 - b\nok 2 - c\n# ok - two\n")
        self.assertEqual((len(shown.passed), shown.failed), (3, []))

    def test_a_skip_of_cmocka_has_the_line_before_it_as_its_reason(self):
        shown = program("1..2\nok 1 - a\nneeds AVX-512\nnot ok 2 # SKIP uses_wide_vectors\n")
        self.assertEqual(shown.skipped, [("uses_wide_vectors", "needs AVX-512")])
        self.assertEqual(shown.failed, [])

    def test_a_skip_of_tap_has_its_reason_behind_it(self):
        shown = program("1..1\nok 1 - draws_on_a_gpu # SKIP there is no GPU\n")
        self.assertEqual(shown.skipped, [("draws_on_a_gpu", "there is no GPU")])

    def test_a_plain_program_is_one_case(self):
        self.assertEqual(len(program("hello\n").passed), 1)
        self.assertEqual(program("ok 7 kernels\n", "FAIL", 3).failed, ["exit status 3"])
        self.assertEqual(program("looking\nno GPU here\n", "SKIP", 77).skipped, [("", "no GPU here")])

    def test_cases_after_a_crash_have_failed(self):
        shown = program("1..3\nok 1 - a\n", "FAIL", -11)
        self.assertEqual(shown.failed, ["a case that never ran: ended by signal 11"] * 2)

    def test_a_bad_end_after_good_cases_is_a_failure(self):
        shown = program("1..1\nok 1 - a\n", "FAIL", 23)
        self.assertEqual(shown.failed, ["every case passed, but exit status 23"])

    def test_a_time_out_is_a_failure(self):
        shown = program("1..1\nok 1 - a\n", "TIMEOUT", -15)
        self.assertEqual(shown.failed, ["every case passed, but out of time after 1 s"])

    def test_seventy_seven_failures_are_not_a_skip(self):
        lines = "".join(f"not ok {i} - t{i}\n" for i in range(1, 78))
        shown = program(f"1..77\n{lines}", "SKIP", 77)
        self.assertEqual((len(shown.failed), shown.skipped), (77, []))

    def test_a_script_of_which_nothing_was_run_is_a_skip_with_its_reasons(self):
        case = "    @unittest.skip('no GPU')\n    def test_{}(self): pass\n"
        good = "    def test_good(self): pass\n"
        for cases, status in ((case.format("a") + case.format("b"), 77), (case.format("a") + good, 0)):
            script = f"import tap, unittest\nclass Cases(unittest.TestCase):\n{cases}tap.main()\n"
            ended = subprocess.run([sys.executable, "-c", script], cwd=pathlib.Path(tap.__file__).parent,
                                   capture_output=True, text=True)
            shown = program(ended.stdout, "SKIP" if status else "OK", ended.returncode)
            self.assertEqual((ended.returncode, shown.failed), (status, []))
            self.assertEqual(shown.skipped[0], ("a", "no GPU"))

    def test_what_the_chosen_tests_need_is_built_when_asked_for_and_a_build_that_fails_is_shown(self):
        with tempfile.TemporaryDirectory() as folder:
            meson = pathlib.Path(folder, "meson")
            meson.write_text('#!/bin/sh\necho "it was given: $*"\n')
            meson.chmod(0o755)
            for options, given in (["--build"], "test -C x --suite y"), ([], "test -C x --no-rebuild --suite y"):
                ended = subprocess.run([sys.executable, SCRIPT, *options, "x", "--suite", "y"], capture_output=True,
                                       text=True, env=dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}"))
                self.assertEqual((ended.returncode, ended.stdout.splitlines()[0]), (1, f"it was given: {given}"))


tap.main()
