"""scripts/install-packages: installs what is missing and only that, says so, and never guesses on other systems."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import tap

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "install-packages"
TOOLS = ("awk", "cat", "cut", "env", "grep", "mktemp", "rm", "sed", "sh", "sort", "tail", "tr", "wc")
BUILD = ("gcc libc6-dev libcurl4-openssl-dev libjansson-dev libjpeg-dev libpng-dev libseccomp-dev libsqlite3-dev "
         "libssl-dev libwebp-dev meson ninja-build pkgconf zlib1g-dev").split()


class Machine:
    """A search path with the standard tools and stand-ins for those that would look at or change this machine."""

    def __init__(self, folder, user=0, has=(), programs=("apt-get", "dpkg-query", "sudo")):
        self.folder = pathlib.Path(folder)
        self.calls = self.folder / "calls"
        self.calls.touch()
        look_up = 'for p; do :; done; case " %s " in *" $p "*) echo installed ;; *) exit 1 ;; esac' % " ".join(has)
        stand_ins = {
            "dpkg-query": look_up,
            "dpkg": f'echo "dpkg $*" >> {self.calls}',
            "id": f"echo {user}",
            "apt-get": f'echo "apt-get $*" >> {self.calls}',
            "sudo": f'echo "sudo $*" >> {self.calls}; [ "$1" = -v ] || "$@"',
        }
        for tool in TOOLS:
            os.symlink(shutil.which(tool), self.folder / tool)
        for name in ("id", *programs):
            (self.folder / name).write_text(f"#!/bin/sh\n{stand_ins.get(name, 'exit 0')}\n")
            (self.folder / name).chmod(0o755)

    def run(self, *groups):
        self.ended = subprocess.run(
            ["/bin/sh", SCRIPT, *groups], env={"PATH": str(self.folder)}, capture_output=True, text=True
        )
        return self.ended

    def installs(self):
        return [line for line in self.calls.read_text().splitlines() if re.match("apt-get .* install ", line)]


class Packages(unittest.TestCase):
    def machine(self, **how):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return Machine(folder.name, **how)

    def test_installs_what_is_missing_and_only_that(self):
        machine = self.machine(has=[p for p in BUILD if p not in ("gcc", "meson")])
        ended = machine.run("build")
        self.assertEqual((ended.returncode, ended.stdout), (0, "kuno: installing 2 Debian packages: gcc meson\n"))
        self.assertEqual(len(machine.installs()), 1)
        self.assertTrue(machine.installs()[0].endswith("install --no-install-recommends gcc meson"))

    def test_asks_dpkg_for_a_foreign_architecture_when_a_package_is_of_one(self):
        machine = self.machine(programs=("apt-get", "dpkg", "dpkg-query"))
        self.assertEqual(machine.run("arm").returncode, 0)
        self.assertIn("dpkg --add-architecture arm64\n", machine.calls.read_text())
        self.assertIn(" libpng-dev:arm64 ", machine.installs()[0])

    def test_asks_nobody_when_nothing_is_missing(self):
        machine = self.machine(has=BUILD, user=1000, programs=("apt-get", "dpkg-query"))
        ended = machine.run("build")
        self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, "", ""))
        self.assertEqual(machine.calls.read_text(), "")

    def test_a_person_installs_by_sudo(self):
        machine = self.machine(user=1000, has=[p for p in BUILD if p != "gcc"])
        ended = machine.run("build")
        self.assertEqual((ended.returncode, ended.stdout), (0, "kuno: installing 1 Debian package: gcc\n"))
        self.assertIn("sudo env DEBIAN_FRONTEND=noninteractive apt-get", machine.calls.read_text())

    def test_without_root_and_sudo_it_says_what_to_install(self):
        machine = self.machine(user=1000, has=[p for p in BUILD if p != "gcc"], programs=("apt-get", "dpkg-query"))
        ended = machine.run("build")
        self.assertEqual((ended.returncode, ended.stdout), (2, ""))
        self.assertEqual(
            ended.stderr,
            "kuno: needs 1 Debian package; as root, install with: apt-get install -y gcc\n",
        )
        self.assertEqual(machine.installs(), [])

    def test_elsewhere_it_names_the_missing_things(self):
        machine = self.machine(programs=("cc", "meson", "pkg-config"))
        ended = machine.run("build")
        self.assertEqual((ended.returncode, ended.stdout), (2, ""))
        self.assertEqual(ended.stderr, "kuno: this machine lacks the program ninja; install that and try again\n")

    def test_elsewhere_it_is_content_with_what_is_there(self):
        machine = self.machine(programs=("cc", "meson", "ninja", "pkg-config"))
        self.assertEqual(machine.run("build").returncode, 0)

    def test_refuses_a_group_that_does_not_exist(self):
        ended = self.machine().run("biuld")
        self.assertEqual((ended.returncode, ended.stderr), (2, "kuno: install-packages: there is no group 'biuld'\n"))


tap.main()
