"""What people see while they wait."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

import tap
from kuno import TINY_PICTURE, Case, wait

REQUEST = ["generate", "a boat", "--size", "256x256"]


class Progress(Case):
    def shown_on_terminal(self, *args, columns=80, terminal="xterm"):
        """What the program writes to a terminal of so many columns that is its standard error."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 25, columns, 0, 0))
        process = self.start(*args, stdout=subprocess.DEVNULL, stderr=theirs, env={"TERM": terminal})
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # how the end of a terminal shows on Linux
                break
            if not piece:
                break
            shown += piece
        os.close(ours)
        self.assertEqual(wait(process)[0], 0, shown)
        return shown.decode()

    def test_pipe(self):
        """writes_plain_lines_into_a_pipe"""
        err = self.kuno(*REQUEST).err
        self.assertRegex(err, r"\A(kuno: (encode|draw|decode|save): [ -~]+\n)+\Z")
        self.assertRegex(err, r"kuno: draw: 8 steps, \d+\.\d s\n")

    def test_terminal(self):
        """redraws_one_line_with_a_bar_on_a_terminal"""
        shown = self.shown_on_terminal(*REQUEST)
        drawn = re.findall(r"\r\x1b\[Kdraw \[(#*) *\] (\d)/8, \d+\.\d s", shown)
        self.assertGreaterEqual(len(drawn), 2, shown)
        self.assertEqual([int(done) for _, done in drawn], sorted(int(done) for _, done in drawn))
        self.assertEqual(drawn[-1], ("#" * 20, "8"))
        self.assertLessEqual(shown.count("\n"), 1, shown)

    def test_remaining(self):
        """says_how_long_it_will_take_once_it_knows"""
        self.assertRegex(self.shown_on_terminal(*REQUEST), r"draw \[#+ +\] [1-7]/8, \d+\.\d s, about \d+\.\d s left")

    def test_columns(self):
        """stays_within_a_terminal_of_80_columns"""
        shown = self.shown_on_terminal(*REQUEST)
        self.assertLess(max(len(line) for line in re.split(r"\r\x1b\[K|\r\n", shown)), 80)

    def test_narrow(self):
        """leaves_the_bar_out_on_a_narrow_terminal"""
        self.assertNotIn("[#", self.shown_on_terminal(*REQUEST, columns=40))

    def test_dumb(self):
        """writes_plain_lines_to_a_terminal_that_cannot_redraw"""
        self.assertNotIn("\x1b", self.shown_on_terminal(*REQUEST, terminal="dumb"))

    def test_quiet(self):
        """shows_nothing_on_a_terminal_when_quiet"""
        self.assertEqual(self.shown_on_terminal(*REQUEST, "--quiet"), "")

    def test_picture_on_terminal(self):
        """refuses_to_write_a_picture_to_a_terminal"""
        ours, theirs = pty.openpty()
        result = self.kuno("generate", "a boat", *TINY_PICTURE, "--output", "-", stdout=theirs)
        os.close(theirs)
        os.close(ours)
        self.assertEqual(result.code, 2)
        self.assert_one_message(result.err)
        self.assertIn("not shown on a terminal", result.err)


if __name__ == "__main__":
    tap.main()
