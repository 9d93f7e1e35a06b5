"""`kuno serve` with its own image worker and the built-in model, as its clients meet it. KUNO names the program."""

import json
import os
import socket
import subprocess
import time

from cli.png import Picture
from studio.rig import PATIENCE, TOKEN, Rig

PROGRAM = os.environ["KUNO"]


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Serve(Rig):
    """The same requests to the program itself, which keeps its ports when it is begun again."""

    ports = None

    def begin(self):
        self.ports = self.ports or free_ports(4)
        listen, control, upstream, self.port = self.ports
        config = {
            "listen": f"127.0.0.1:{listen}",
            "control": f"127.0.0.1:{control}",
            "upstream": f"127.0.0.1:{upstream}",
            "state_dir": self.folder,
            "studio": {"listen": f"127.0.0.1:{self.port}", "models": os.path.join(self.folder, "models.toml")},
        }
        path = os.path.join(self.folder, "config.json")
        with open(path, "w") as file:
            json.dump(config, file)
        open(config["studio"]["models"], "a").close()
        own = {**os.environ, "KUNO_CONTROL_TOKEN": TOKEN}
        with open(os.path.join(self.folder, "log"), "a") as log:
            self.process = subprocess.Popen([PROGRAM, "serve", "--config", path], stderr=log, env=own)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                if self.get("/health", token=None).status == 200:
                    return
            except OSError:
                time.sleep(0.02)
            if self.process.poll() is not None:
                break
        raise AssertionError(f"it does not begin: {self.log}")

    def workers(self):
        """The processes that it has started."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:
            return [int(word) for word in file.read().split()]

    def drawn(self, prompt, **more):
        job = self.ended(self.job(prompt, **more))
        if job["state"] != "completed":
            raise AssertionError(f"{job['error']}")
        return Picture(self.get(f"/jobs/{job['id']}/results/0").body)

    def running(self, job, picture=0, attempts=1):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            answer = self.get(f"/jobs/{job}").json
            progress = answer["progress"]
            if (progress["phase"] == "sampling" and progress["image_index"] >= picture
                    and answer["attempts"] >= attempts):
                return answer
            time.sleep(0.005)
        raise AssertionError(f"{job} does not run")
