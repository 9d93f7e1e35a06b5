"""bench/compare: rows are judged by what was measured, and what was not run is never taken for good."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import tap

BENCH = pathlib.Path(__file__).parents[2] / "bench"
KUNO = os.environ["KUNO"]
sys.path.insert(0, str(BENCH))
import measure  # noqa: E402 (these lie there)
import rows  # noqa: E402

BELOW, NOT_RUN = 1, 2


def compare(*args):
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, BENCH / "compare", "--kuno", KUNO, "--folder", folder, *args]
        return subprocess.run(command, capture_output=True, text=True, check=False)


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

    def test_an_operation_is_measured_in_turns_with_another(self):
        name, format_ = "linear 64x3840x4096 Q8_0", ("kuno", "ops", "--filter", "linear 64x3840x4096 BF16")
        script = (
            "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); import rows\n"
            f"rows.ROWS[:] = [rows.Row('x', 'x', 'tried', ('ops', '--filter', {name!r}), {format_!r}, 1e9, None)]\n"
            "sys.argv[0] = sys.argv[1]; del sys.argv[1]; runpy.run_path(sys.argv[0], run_name='__main__')"
        )
        with tempfile.TemporaryDirectory() as folder:
            told = subprocess.run(
                [sys.executable, "-c", script, BENCH, BENCH / "compare", "--kuno", KUNO, "--folder", folder, "--rounds",
                 "1", "--threads", "1"], capture_output=True, text=True, check=False)
        self.assertEqual(told.returncode, BELOW, told.stderr)
        row = cells(told.stdout, "tried")
        self.assertTrue(all(float(cell) > 0 for cell in (row[2], row[3], row[5], row[6])), row)
        self.assertTrue(row[10].startswith("**below**"), row)

    def test_a_row_without_its_peer_is_not_run_and_never_good(self):
        told = compare("--row", "conv-64-512-512", "--threads", "1", "--rounds", "1")
        self.assertEqual(told.returncode, NOT_RUN, told.stderr)
        self.assertIn("- convolution 3x3, 64x64 512 to 512: needs --python", told.stdout)


class Report(unittest.TestCase):
    def test_a_report_takes_the_place_of_the_last_one_and_leaves_others_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "RESULTS.md"
            for text in ("# One\n\nfirst\n\n## Part\n", "# Two\n\nx\n", "# One\n\nsecond\n"):
                measure.replace_part(path, text)
            self.assertEqual(path.read_text(), "# One\n\nsecond\n\n# Two\n\nx\n")


tap.main()
