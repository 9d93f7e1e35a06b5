"""Cases with workers of the server's own, which stub_worker.py plays."""

import contextlib
import json
import os
import pathlib
import signal
import sys

from harness import Case, Server, wait_until
from ports import free_ports

STUB = pathlib.Path(__file__).parent / "stub_worker.py"
CPU = 'id=cpu library=cpu compute="" name=cpu driver="" pci_id="" total="1.0 GiB"'


def is_alive(pid):
    with contextlib.suppress(OSError):
        return "\nState:\tZ" not in pathlib.Path(f"/proc/{pid}/status").read_text()
    return False


class Workers(Case):
    """Two workers on the processor, each with room for one model."""

    def setUp(self):
        super().setUp()
        self.addresses = free_ports(2)
        self.homes = [self.folder / f"home{i}" for i in range(2)]
        self.executable = self.folder / "ollama"
        self.executable.write_text(f"#!{sys.executable}\n" + STUB.read_text())
        self.executable.chmod(0o755)
        for folder in self.folder / "models", *self.homes:
            folder.mkdir()
        for home in self.homes:
            self.set_stub(home)

    def set_stub(self, home, **more):
        setup = {"models": self.upstream.models, **self.usual(self.homes.index(home)), **more}
        (home / "new").write_text(json.dumps(setup))
        (home / "new").rename(home / "stub.json")

    def usual(self, worker):
        """What its stand-in is told, unless a test says otherwise."""
        return {"devices": [CPU]}

    def device(self, worker):
        return {"backend": "cpu"}

    def managed(self, most=1, reserve=0, **more):
        workers = [{"executable": str(self.executable), "models": str(self.folder / "models"), "home": str(home),
                    "address": f"127.0.0.1:{port}", "max_loaded_models": most, "context_length": 512,
                    "device": self.device(worker)}
                   for worker, (home, port) in enumerate(zip(self.homes, self.addresses))]
        return {"managed": {"reserve_bytes": reserve, "workers": workers}, **more}

    def start(self, most=1, env=None, before=(), **more):
        server = Server(self, before, env, **self.managed(most, **more)).wait_ready()
        self.addCleanup(self.no_worker_is_left, server)
        return server

    def no_worker_is_left(self, server):
        server.kill()
        try:
            for pid in self.pids():
                wait_until(lambda pid=pid: not is_alive(pid), f"the end of worker {pid}")
        finally:
            for pid in self.pids():
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)

    def notes(self, home=None, start=""):
        lines = []
        for one in [self.homes[home]] if home is not None else self.homes:
            with contextlib.suppress(FileNotFoundError):
                lines += (one / "stub.log").read_text().splitlines()
        return [line for line in lines if line.startswith(start)]

    def pids(self, home=None):
        return [int(line.split()[1]) for line in self.notes(home, "start")]

    def workers(self, server):
        return server.own("GET", "status")[1]["workers"]

    def place(self, answer):
        """Which worker has answered: 0 or 1."""
        status, _, body = answer
        self.assertEqual(status, 200, body)
        return self.addresses.index(json.loads(body)["worker"])

    def failures(self, server, worker):
        return server.own("GET", "learning")[1]["workers"][worker]["failures"]
