"""Runs tests in a machine of their own, an emulated one with Debian 12 and a kernel of this version, and passes on what
they say.

    machine.py 6.12|6.1        KUNO, KUNO_PROBED: the programs

`make` beside this makes what it is started from, `begin` says what is done in it. It reaches nothing of this machine:
it has a disk that is thrown away, no network, and finds the programs and tests on a second disk.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

TESTS = pathlib.Path(__file__).resolve().parents[1]
FOLDER = pathlib.Path(os.environ.get("KUNO_MACHINES_DIR") or pathlib.Path.home() / ".cache" / "kuno-machines")
PATIENCE = 1700  # for all that one machine does
NOT_RUN = 77
COMPLETE = "6.12"  # this kernel has everything, so that no case is left out
KERNEL_LINE = ("console=ttyS0 quiet loglevel=3 panic=-1 no_timer_check random.trust_cpu=on mitigations=off "
               "systemd.show_status=0 systemd.firstboot=off")
DISK = "format=raw,if=virtio,cache=writeback"


def pack(kernel, path):
    """The programs, and the tests that `begin` chooses from."""
    tests = [*TESTS.glob("*.py"), *TESTS.glob("machine/*")]
    tests += [file for room in ("cli", "studio", "workers") for file in TESTS.glob(f"{room}/*.py")]
    with tarfile.open(path, "w") as archive:
        archive.add(os.environ["KUNO"], "kuno")
        archive.add(os.environ["KUNO_PROBED"], "kuno-probed")
        for file in tests:
            archive.add(file, pathlib.Path("tests") / file.relative_to(TESTS))
        word = tarfile.TarInfo("kernel-" + kernel)
        archive.addfile(word)


class Machine:
    def __init__(self, kernel, folder):
        self.kernel = kernel
        self.disk, self.programs, self.said, self.console = (folder / name for name in
                                                             ("disk", "programs", "said", "console"))
        subprocess.run(["cp", "--sparse=always", FOLDER / "disk", self.disk], check=True)
        pack(kernel, self.programs)

    def start(self):
        """What was written to its disk and synchronised is kept; the rest goes with the emulator's process."""
        room = FOLDER / self.kernel
        return subprocess.Popen(
            ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "1024",
             "-nodefaults", "-no-user-config", "-display", "none", "-nic", "none", "-no-reboot",
             "-kernel", room / "kernel", "-initrd", room / "first", "-append", KERNEL_LINE,
             "-chardev", f"file,id=console,path={self.console},append=on", "-serial", "chardev:console",
             "-chardev", f"file,id=said,path={self.said}", "-serial", "chardev:said",
             "-drive", f"file={self.disk},{DISK}", "-drive", f"file={self.programs},readonly=on,{DISK}"],
            stdin=subprocess.DEVNULL)

    def lines(self, end):
        """Of one start, until the machine is off, its power is cut by whoever listens, or time is over."""
        self.said.write_bytes(b"")
        emulator = self.start()
        try:
            with open(self.said, encoding="utf-8", errors="replace") as file:
                part, is_off = "", False
                while time.monotonic() < end and not is_off:
                    time.sleep(0.1)
                    is_off = emulator.poll() is not None  # before the last that it said is read
                    *whole, part = (part + file.read()).split("\n")
                    yield from whole
        finally:
            emulator.kill()
            emulator.wait()

    def run(self):
        """Whether all went well."""
        end = time.monotonic() + PATIENCE
        word, good = "@again", True
        while word in ("@again", "@cut"):
            word = None
            for line in self.lines(end):
                if line.startswith("@"):
                    word = line
                    if word == "@cut":
                        break
                else:
                    good &= self.pass_on(line)
        if word == "@end":
            return good
        print("1..1\nnot ok 1 - the machine comes to the end of its tests")
        for line in self.console.read_text(errors="replace").split("\n")[-40:]:
            print(f"# {line}")
        return False

    def pass_on(self, line):
        if self.kernel == COMPLETE and line.startswith("ok ") and "# SKIP" in line:
            line = "not " + line.replace("# SKIP", "although this kernel has what it needs:")
        print(line, flush=True)
        return not line.startswith("not ok")


def main():
    if os.environ.get("KUNO_SANITIZE", "none") != "none":
        print("the other machine has no libraries of sanitizers")
        sys.exit(NOT_RUN)
    made = subprocess.run([TESTS / "machine" / "make"], check=False).returncode
    if made:
        sys.exit(made)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="kuno-machine-", dir=os.environ.get("TMPDIR", "/var/tmp")) as folder:
        good = Machine(sys.argv[1], pathlib.Path(folder)).run()
    sys.exit(0 if good else 1)


main()
