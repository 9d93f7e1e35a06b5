"""Runs the program from outside, as its users meet it.

Each case has a folder of its own that is the working folder, an empty home beside it, and a watch on both time and
memory. KUNO names the program, KUNO_SANITIZE what it was built to watch ("none" in an ordinary build), KUNO_GOLDEN the
folder of recorded values.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

PROGRAM = os.environ["KUNO"]
SANITIZED = os.environ.get("KUNO_SANITIZE", "none") != "none"
GOLDEN = pathlib.Path(os.environ["KUNO_GOLDEN"])
E2E = GOLDEN / "qwen21-e2e"

# A model so small that a whole picture costs next to nothing.
TINY = ["--config", str(E2E / "models.toml")]
TINY_PICTURE = [*TINY, "--size", "32x32", "--steps", "1", "--seed", "1"]

HANG_SECONDS = 300  # whatever takes so long has no end
REFUSAL_SECONDS = 2  # what cannot work is refused before anybody waits for it …
REFUSAL_BYTES = 1 << 30  # … or needs much memory
TRIES = 4  # others may keep the machine busy; the program itself is as fast as its fastest run


class Result:
    def __init__(self, code, out, err, seconds, rss_bytes):
        self.code, self.out, self.seconds, self.rss_bytes = code, out, seconds, rss_bytes
        self.err = err.decode("utf-8", "surrogateescape")


def environment(home, **more):
    """What the program sees of its surroundings: nothing that the person who runs the tests has set up."""
    kept = {name: os.environ[name] for name in os.environ if name == "PATH" or name.endswith("SAN_OPTIONS")}
    return {**kept, "HOME": str(home), "TMPDIR": str(home), "LC_ALL": "C.UTF-8", **more}


def wait(process, limit=HANG_SECONDS):
    """Waits for a process; returns (exit code, resources it used). Kills it when the limit is over."""
    timer = threading.Timer(limit, process.kill)
    timer.start()
    try:
        _, status, usage = os.wait4(process.pid, 0)
    finally:
        timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage


def everything_in(folder):
    return sorted(str(path.relative_to(folder)) for path in pathlib.Path(folder).rglob("*"))


def hear_all_signals():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Case(unittest.TestCase):
    longMessage = True
    maxDiff = 2000

    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="kuno-test-"))
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        self.folder, self.home, self.inputs = (self.root / name for name in ("folder", "home", "inputs"))
        for folder in (self.root, self.folder, self.home, self.inputs):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)

    def start(self, *args, before=(), env=None, program=PROGRAM, **popen):
        """The program in the background; `before` is a command line that is to run it."""
        popen.setdefault("stdin", subprocess.DEVNULL)
        popen.setdefault("preexec_fn", hear_all_signals)  # whatever the tests themselves were started with
        return subprocess.Popen([*before, program, *args], cwd=self.folder,
                                env=environment(self.home, **(env or {})), **popen)

    def kuno(self, *args, limit=HANG_SECONDS, **start):
        """Runs the program to its end."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            begin = time.monotonic()
            code, usage = wait(self.start(*args, **{"stdout": out, "stderr": err, **start}), limit)
            seconds = time.monotonic() - begin
            out.seek(0)
            err.seek(0)
            return Result(code, out.read(), err.read(), seconds, usage.ru_maxrss * 1024)

    def draws(self, *args, **start):
        """A run that must succeed."""
        result = self.kuno("generate", *args, **start)
        self.assertEqual(result.code, 0, result.err)
        return result

    def refuses(self, args, *says, code=2, **start):
        """A run that must end soon, in one clear line, and leave nothing behind."""
        before = everything_in(self.folder)
        seconds = []
        while not seconds or (min(seconds) > REFUSAL_SECONDS and len(seconds) < TRIES):
            result = self.kuno(*args, **start)
            seconds.append(result.seconds)
        self.assertEqual(result.code, code, result.err)
        self.assert_one_message(result.err)
        for words in says:
            self.assertIn(words, result.err)
        self.assertEqual(result.out, b"")
        self.assertEqual(everything_in(self.folder), before)
        self.assertLessEqual(min(seconds), REFUSAL_SECONDS)
        self.assertLessEqual(result.rss_bytes, REFUSAL_BYTES)
        return result

    def assert_one_message(self, err):
        """One line for people; after a slip on the command line a second one says where help is."""
        message, *rest = err.splitlines()
        self.assertRegex(message, r"^kuno: \S.*[^.]$")
        self.assertTrue(err.endswith("\n"))
        self.assertTrue(message.isprintable(), ascii(message))
        if rest:
            self.assertRegex("\n".join(rest), r"\ATry 'kuno( [a-z-]+)? --help'\.\Z")

    def write(self, name, data):
        path = self.inputs / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return str(path)


def add_cases(case, table):
    """Adds one test per row (promise, function of the case) of a table to a class."""
    for promise, check in table:
        def test(self, check=check):
            check(self)
        test.__doc__ = promise
        assert not hasattr(case, f"test_{promise}"), promise
        setattr(case, f"test_{promise}", test)


def as_nobody(case):
    """Arguments of `start` for a user without rights, as root may read and write everything. The program is copied to
    where anybody may run it."""
    if os.geteuid() != 0:
        return {}
    program = case.inputs / "kuno"
    shutil.copy(PROGRAM, program)
    program.chmod(0o755)
    return {"user": 65534, "group": 65534, "extra_groups": [], "program": program}


def needs_namespaces(*kinds):
    """A command line for a world of one's own; skips the test where the system does not allow that."""
    if not shutil.which("unshare"):
        raise unittest.SkipTest("unshare is not installed")
    command = ["unshare", *kinds] if os.geteuid() == 0 else ["unshare", "--map-root-user", *kinds]
    tried = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        raise unittest.SkipTest(f"{' '.join(command)} is not permitted here: {tried.stderr.strip()}")
    return command
