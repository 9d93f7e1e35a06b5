"""bench/compare: rows are judged by what was measured, and what was not run is never taken for good."""

import argparse
import hashlib
import json
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import tap

BENCH = pathlib.Path(__file__).parents[2] / "bench"
KUNO = os.environ["KUNO"]
sys.path.insert(0, str(BENCH))
import measure  # noqa: E402 (these lie there)
import processor_time  # noqa: E402
import rows  # noqa: E402
import sides  # noqa: E402

BELOW, NOT_RUN, REFUSED = 1, 2, 2
WITHOUT_PEER = ("--row", "conv-64-512-512", "--threads", "1", "--rounds", "1")  # next to nothing is done
PICTURE = ("--row", "demo", "--threads", "1", "--rounds", "1")


def compare(*args):
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, BENCH / "compare", "--kuno", KUNO, "--folder", folder, *args]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def script(path, line):
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return path


def cells(report, work):
    """The row of the report's table that begins so."""
    line, = (line for line in report.splitlines() if line.startswith(f"| {work}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


class Compare(unittest.TestCase):
    def test_every_row_can_be_asked_for_by_a_name_of_its_own(self):
        listed = compare("--list").stdout.splitlines()
        names = [line.split()[0] for line in listed]
        self.assertEqual(names, [row.name for row in rows.ROWS])
        self.assertEqual(len(set(names)), len(names))

    def test_an_unknown_row_is_refused(self):
        told = compare("--row", "demo", "nothing")
        self.assertEqual(told.returncode, 2)
        self.assertIn("there is no nothing", told.stderr)

    def test_the_picture_of_the_built_in_model_is_measured_and_judged(self):
        told = compare("--row", "demo", "--threads", "1", "--rounds", "2")
        self.assertIn(told.returncode, (0, BELOW), told.stderr)
        row = cells(told.stdout, "the demo picture")
        self.assertGreater(float(row[2]), 0)
        self.assertEqual(row[10], "good" if told.returncode == 0 else "**below**")

    def tries(self, row, *args):
        """A report about this row alone, whose target nobody can reach."""
        script = (
            "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); import rows\n"
            f"rows.ROWS[:] = [rows.Row('x', 'x', 'tried', {row}, 1e9, None, threads=(1,))]\n"
            "sys.argv[0] = sys.argv[1]; del sys.argv[1]; runpy.run_path(sys.argv[0], run_name='__main__')"
        )
        with tempfile.TemporaryDirectory() as folder:
            told = subprocess.run(
                [sys.executable, "-c", script, BENCH, BENCH / "compare", "--kuno", KUNO, "--folder", folder, "--rounds",
                 "1", *args], capture_output=True, text=True, check=False)
        self.assertEqual(told.returncode, BELOW, told.stderr)
        row = cells(told.stdout, "tried")  # one, whatever numbers of threads are wanted
        self.assertEqual(row[1], "1")
        self.assertTrue(all(float(cell) > 0 for cell in (row[2], row[3], row[5], row[6])), row)
        self.assertTrue(row[10].startswith("**below**"), row)
        return row

    def test_an_operation_is_measured_in_turns_with_another(self):
        name, other = "linear 64x3840x4096 Q8_0", ("kuno", "ops", "--filter", "linear 64x3840x4096 BF16")
        self.tries(f"('ops', '--filter', {name!r}), {other!r}", "--threads", "1")

    def test_what_happens_to_finished_pictures_is_measured_with_one_thread_alone(self):
        row = self.tries("('picture', '--filter', 'png'), ('kuno', 'picture', '--filter', '1365x768')",
                         "--threads", "1", "2")
        self.assertRegex(row[0], r"\Atried; \d+\.\d MB\Z")

    def test_a_row_without_its_peer_is_not_run_and_never_good(self):
        told = compare(*WITHOUT_PEER)
        self.assertEqual(told.returncode, NOT_RUN, told.stderr)
        self.assertIn("- convolution 3x3, 64x64 512 to 512: needs --python", told.stdout)

    def test_rows_of_a_peer_that_cannot_be_had_are_not_run_and_no_model_is_written_for_them(self):
        with tempfile.TemporaryDirectory() as folder:
            models, place = pathlib.Path(folder) / "models", pathlib.Path(folder)
            for row, option, peer, why in (
                ("step-z-image-256", "--python", place / "nothing", "cannot be started: No such file"),
                ("step-z-image-256", "--python", script(place / "ends", "echo why >&2; exit 3"), "status 3: why"),
                ("step-z-image-256", "--python", script(place / "talks", "echo hello; exec cat"), "not answer in JSON"),
                ("sdcpp-z-image-q8_0-256", "--peers", place / "nothing", "cannot be started: No such file"),
                ("encoder-llama", "--peers", place / "ends", "cyllama is not in the environment"),
            ):
                with self.subTest(row=row, peer=peer.name):
                    told = compare("--row", row, "--threads", "1", option, peer, "--folder", models)
                    self.assertEqual(told.returncode, NOT_RUN, told.stderr)
                    self.assertIn(why, told.stdout.split("Not run:")[1])
                    self.assertNotIn("Traceback", told.stderr)
                    self.assertEqual(list(models.iterdir()), [])

    def test_a_peer_that_ends_between_its_turns_is_absent(self):
        peer = sides.Paced(sys.executable, "-c", """print('{"bench": "ready"}')""")
        peer.process.wait()
        with self.assertRaisesRegex(sides.Absent, "ended"):
            peer.turn()
        peer.close()

    def test_what_is_not_kuno_is_refused_in_one_line(self):
        for program in ("/bin/true", "/nonexistent/kuno", "/"):
            told = compare(*PICTURE, "--kuno", program)
            self.assertEqual((told.returncode, len(told.stderr.splitlines())), (REFUSED, 1), told.stderr)

    def test_numbers_of_turns_and_threads_are_at_least_one_and_each_is_taken_once(self):
        for args in (("--rounds", "0"), ("--threads", "0")):
            told = compare(*args)
            self.assertEqual(told.returncode, REFUSED)
            self.assertIn("at least 1", told.stderr)
        told = compare(*WITHOUT_PEER, "--quick", "--threads", "1", "1")
        self.assertIn("`bench/compare --quick --row conv-64-512-512 --threads 1 --rounds 1`", told.stdout)


class Judgement(unittest.TestCase):
    program = runpy.run_path(str(BENCH / "compare"))

    def result(self, name, ours, theirs, told):
        row, = (row for row in rows.ROWS if row.name == name)
        samples = ([sides.Sample(*ours)] * 5, [sides.Sample(*theirs)] * 5 if theirs else [])
        return self.program["Result"](row, 2, *samples, "", told)

    def test_a_limit_below_the_peer_s_own_speed_is_never_told(self):
        # Of two threads: what takes 20 ms of processor time is at 86 % of the limit, 16.9 would be 102 %.
        told = {"share": 0.86, "limit": "int8", "peak": {"int8": 0.93e12}}
        for theirs, verdict in (
            (0.0169, "**below**"),
            (0.0180, "**below**; the limit is at 1.05"),
            (0.0202, "**below**; the limit is at 1.17"),
            (0.0230, "**below**"),  # the limit is no excuse: good could be had
        ):
            result = self.result("gemm-int8-256x3840x4096", (0.0100, 0.0200), (0.0098, theirs), told)
            self.assertEqual(result.verdict, verdict)

    def test_of_all_measured_limits_the_most_counts(self):
        slow, fast = ({"share": 0.9, "limit": "fma", "peak": {"fma": peak}} for peak in (0.14e12, 0.18e12))
        results = [self.result("gemm-int8-256x3840x4096", (0.01, 0.02), (0.01, 0.02), told) for told in (slow, fast)]
        self.assertEqual(self.program["use_most"](results, [(2, {"fma": 0.2e12, "read": 1.0}), (1, {"fma": 0.9e12})]),
                         {2: {"fma": 0.2e12, "read": 1.0}, 1: {"fma": 0.9e12}})
        self.assertEqual([result.limit for result in results], ["63 % of 0.20 T (fma)", "81 % of 0.20 T (fma)"])
        self.assertEqual(results[0].verdict, "**below**")  # 1.59 could be had, not 1.11

    def test_milliseconds_that_are_promised_are_those_of_the_clock_whoever_is_at_work(self):
        result = self.result("demo", (0.16, 0.01), None, {})
        result.others = 0.9
        self.assertEqual(result.verdict, "**below**")
        result = self.result("demo", (0.14, 0.9), None, {})
        result.others = 0.9
        self.assertEqual(result.verdict, "good")

    def test_a_large_file_is_never_excellent(self):
        for size, verdict in ((13.6e6, "excellent"), (13.7e6, "good")):
            result = self.result("png-3840x2160", (0.1, 0.1), (1, 1), {"file_bytes": size})
            self.assertEqual((result.verdict, result.work), (verdict, f"a PNG file of 3840x2160; {size / 1e6:.1f} MB"))

    def test_what_can_be_done_with_fewer_operations_has_no_such_limit(self):
        told = {"share": 1.9, "limit": "bf16", "peak": {"bf16": 0.47e12}}
        result = self.result("conv-64-512-512", (0.1, 0.2), (0.1, 0.2), told)
        self.assertEqual(result.verdict, "**below**")


class Quick(unittest.TestCase):
    program = Judgement.program

    def test_it_takes_one_row_of_each_kind_the_first(self):
        chosen = self.program["chosen_rows"](argparse.Namespace(row=None, quick=True))
        kinds = [row.kind for row in chosen]
        self.assertEqual(len(kinds), len(set(kinds)))
        self.assertEqual(set(kinds), {row.kind for row in rows.ROWS if row.quick})
        self.assertLessEqual({"gemm-bf16", "limit-avx512vnni", "step", "sdcpp", "png", "lanczos"}, set(kinds))

    def test_rows_that_would_begin_too_late_are_not_run(self):
        over, row = self.program["Stopwatch"](-1), rows.ROWS[0]
        found = self.program["measure_all"](None, [row], None, {}, {}, over)
        self.assertEqual(found, ([], [(row, "the -1 seconds of --quick were over")]))
        self.assertFalse(self.program["Stopwatch"](None).is_over)
        self.assertFalse(self.program["Stopwatch"](3600).is_over)

    def test_it_says_what_it_took(self):
        told = compare(*PICTURE, "--quick")
        self.assertRegex(told.stdout, r"The run took \d+ seconds of the 300 that --quick may take\.")
        self.assertRegex(compare(*PICTURE).stdout, r"The run took \d+ seconds\.")


class ProcessorTime(unittest.TestCase):
    def test_it_has_what_running_threads_used_until_now(self):
        # As tests/unit/test_threads.c says: two threads cannot have used more than twice the time that passed.
        data, begun, enough = bytes(4 << 20), threading.Event(), threading.Event()

        def work():
            while not enough.is_set():
                hashlib.sha256(data)  # other threads of Python can run meanwhile
                begun.set()

        thread = threading.Thread(target=work)
        thread.start()
        self.assertTrue(begun.wait(60))
        its_own = time.pthread_getcpuclockid(thread.ident)
        wrong = []
        for _ in range(50):
            begin = time.perf_counter()
            while time.perf_counter() < begin + 0.0013:
                pass
            start, before = time.perf_counter(), processor_time.used()
            time.clock_gettime(its_own)
            after, end = processor_time.used(), time.perf_counter()
            if after - before > 2 * (end - start) + 1e-4:
                wrong.append((after - before, end - start))
        enough.set()
        thread.join()
        self.assertEqual(wrong, [])


class Record(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "record"
        self.kept = {
            "row": "demo", "threads": 1, "ours": [[0.0625, 0.0625]], "theirs": [], "way": "", "told": {}, "others": 0
        }

    def here(self):
        """Such a line of this program on this processor."""
        self.goes_on()
        return json.loads(self.path.read_text()) | self.kept

    def goes_on(self):
        """What it says, and the picture's milliseconds: 62.5 if they are those of the record."""
        told = compare(*PICTURE, "--record", self.path)
        self.assertIn(told.returncode, (0, BELOW), told.stderr)
        return told.stderr, cells(told.stdout, "the demo picture")[2]

    def test_turns_are_taken_from_the_record_but_not_those_of_another_kuno_or_processor(self):
        here = self.here()
        for other in ({}, {"version": "kuno 0.0.1"}, {"program": "0123456789ab"}, {"processor": "Abacus"}):
            self.path.write_text(json.dumps(here | other) + "\n")
            said, milliseconds = self.goes_on()
            self.assertEqual(milliseconds == "62.5", not other, said)
            self.assertEqual("1 of 1 lines are of another Kuno or processor" in said, bool(other), said)
        self.path.write_text(json.dumps(self.kept) + "\n")  # which does not say
        self.assertIn("1 of 1 lines are of another Kuno or processor", self.goes_on()[0])

    def test_a_last_line_that_was_broken_off_is_dropped_with_a_word(self):
        line = json.dumps(self.here()) + "\n"
        for length in (1, len(line) // 2, len(line) - 1):
            self.path.write_text(line + line[:length])
            said, milliseconds = self.goes_on()
            self.assertEqual(milliseconds, "62.5")
            self.assertIn("is broken off and was dropped", said)
            self.assertEqual(self.path.read_text(), line)

    def test_what_is_no_record_is_refused_and_left_alone(self):
        line = json.dumps(self.kept) + "\n"
        for text in ("# A report", '{"row": "demo"}\n' + line, "[]\n", line[:20] + "\n" + line):
            self.path.write_text(text)
            told = compare(*PICTURE, "--record", self.path)
            self.assertEqual((told.returncode, len(told.stderr.splitlines())), (REFUSED, 1), told.stderr)
            self.assertIn("line 1 of", told.stderr)
            self.assertEqual(self.path.read_text(), text)


class Report(unittest.TestCase):
    def test_a_report_takes_the_place_of_the_last_one_and_leaves_others_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "RESULTS.md"
            for text in ("# One\n\nfirst\n\n## Part\n", "# Two\n\nx\n", "# One\n\nsecond\n"):
                measure.replace_part(path, text)
            self.assertEqual(path.read_text(), "# One\n\nsecond\n\n# Two\n\nx\n")

    def test_a_report_of_another_title_stands_beside_the_first(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "RESULTS.md"
            for title in ((), ("--title", "Some rows"), ("--title", "Some rows")):
                told = compare(*WITHOUT_PEER, "--output", path, *title)
                self.assertEqual(told.returncode, NOT_RUN, told.stderr)
            titles = [line for line in path.read_text().splitlines() if line.startswith("# ")]
            self.assertEqual(titles, ["# Kuno and its peers, measured", "# Some rows"])

    def test_files_that_cannot_be_written_are_refused_before_anything_is_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            not_text = pathlib.Path(folder) / "picture"
            not_text.write_bytes(b"\xff\xd8")
            for option in ("--output", "--record"):
                for path in (f"{folder}/missing/file", folder, "/dev/full", "/proc/file", not_text):
                    with self.subTest(option=option, path=path):
                        told = compare(*PICTURE, option, path)
                        self.assertEqual((told.returncode, told.stdout), (REFUSED, ""), told.stderr)
                        self.assertRegex(told.stderr, rf"\Abench/compare: {option}: .*\n\Z")
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [not_text])


tap.main()
