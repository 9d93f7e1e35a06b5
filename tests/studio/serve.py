"""The studio as people run it: `kuno serve` with its image worker and the built-in model. KUNO names the program."""

import contextlib
import json
import os
import pathlib
import signal
import struct
import subprocess
import time
import urllib.request

from cli.png import Picture
from ports import free_ports
from studio.rig import ENDED, PATIENCE, TOKEN, Rig

PROGRAM = os.environ["KUNO"]
PROBED = os.environ.get("KUNO_PROBED")
LONG = {"batch": 8, "preset": "quality"}  # seconds, for a job that somebody finds running
DEMO = pathlib.Path(__file__).parents[2] / "models" / "demo"
PROFILE = """[model_profiles.{name}]
architecture = "qwen-image-2.1"
variant = "turbo"
diffusion_model = "{diffusion}"
text_encoder = "{demo}/text_encoder_fp8_scaled.safetensors"
vae = "{vae}"
tokenizer = "{demo}/tokenizer"
"""


LAST_BIAS = 115216  # of the built-in VAE's decoder, from the end of the header on: decoder.head.2.bias, BF16


def write_bright_vae(path):
    """The built-in one, with pictures that nobody takes for those of that one."""
    weights = (DEMO / "vae.safetensors").read_bytes()
    at = 8 + struct.unpack("<Q", weights[:8])[0] + LAST_BIAS
    with open(path, "wb") as file:
        file.write(weights[:at] + struct.pack("<4H", *[0x3F80] * 4) + weights[at + 8:])  # 1 in each channel


def command_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


class Serve(Rig):
    """The same requests to the program itself, which keeps its ports when it is begun again. `more` goes into its
    configuration."""

    program = PROGRAM
    ports = None
    environment = {}  # more of it
    names_models = True  # in its configuration; else it has the user's own
    around = ()  # a command that runs the program
    of_studio = {}  # more of that part of the configuration

    def __init__(self, within=None, mirror=None, **more):
        self.more = more
        super().__init__(within, mirror)

    def begin(self, statuses=(200,)):
        self.ports = self.ports or free_ports(4)
        self.listen, self.control, upstream, self.port = self.ports
        studio = {"listen": f"127.0.0.1:{self.port}", **self.of_studio}
        if self.names_models:
            studio["models"] = os.path.join(self.folder, "models.toml")
            open(studio["models"], "a").close()
        if self.mirror:
            studio["mirror"] = self.mirror
        config = {
            "listen": f"127.0.0.1:{self.listen}",
            "control": f"127.0.0.1:{self.control}",
            "upstream": f"127.0.0.1:{upstream}",
            "state_dir": self.folder,
            "studio": studio,
            **self.more,
        }
        path = os.path.join(self.folder, "config.json")
        with open(path, "w") as file:
            json.dump(config, file)
        own = {**os.environ, "KUNO_CONTROL_TOKEN": TOKEN, **self.environment}
        with open(os.path.join(self.folder, "log"), "a") as log:
            command = [*self.around, self.program, "serve", "--config", path]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=own)
        self.begun(statuses)

    def begun(self, statuses=(200,)):
        """Waits until the studio says so; 503: it has no storage to begin with."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.process.poll() is None:
            with contextlib.suppress(OSError):
                if self.get("/health", token=None).status in statuses:
                    return
            time.sleep(0.02)
        raise AssertionError(f"it does not begin: {self.log}")

    def begin_after_death(self):
        with contextlib.suppress(AssertionError):
            self.begin((200, 503))

    def workers(self, option=b""):
        """The processes that it has started, with that word in their command: who draws has "--upscalers", who looks at
        pictures has not. Without one, those that have ended and were not buried are among them."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:
            children = [int(word) for word in file.read().split()]
        return [child for child in children if option in command_of(child)]

    def drawn(self, prompt, **more):
        job = self.ended(self.job(prompt, **more))
        if job["state"] != "completed":
            raise AssertionError(f"{job['error']}")
        return Picture(self.get(f"/jobs/{job['id']}/results/0").body)

    def controlled(self, path):
        """What the gateway answers by its other door."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.control}/kuno/v1/{path}",
                                         headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def status(self):
        return self.controlled("status")

    def route(self, **more):
        """A picture by the gateway's route."""
        recipe = {"workflow": "qwen-image-2.1-text-to-image/v1", "prompt": "a boat", "seed": "42", "width": 128,
                  "height": 128, "steps": 8, "cfg": 1, **more}
        fields = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.control}/kuno/v1/images/generate",
                                         json.dumps(recipe).encode(), fields)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.read()

    def running(self, job, picture=0, attempts=1):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            answer = self.get(f"/jobs/{job}").json
            progress = answer["progress"]
            if (progress["phase"] == "sampling" and progress["image_index"] >= picture
                    and answer["attempts"] >= attempts):
                return answer
            if answer["state"] in ENDED:
                break
            time.sleep(0.005)
        raise AssertionError(f"{job} does not run: {answer}")

    @contextlib.contextmanager
    def held(self, job):
        """It runs, and whoever draws it does nothing meanwhile: nobody has to be faster."""
        self.running(job)
        (worker,) = self.workers(b"--upscalers")
        os.kill(worker, signal.SIGSTOP)
        while state_of(worker) not in "TXZ":  # it may be in the middle of something
            time.sleep(0.001)
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGCONT)


class Probed(Serve):
    """With faults under its worker's parsers (tests/workers/probe.c): profiles "crash" and "hang" do that."""

    program = PROBED

    def begin(self):
        with open(os.path.join(self.folder, "models.toml"), "w") as file:
            file.write('default_model = "demo"\n')
            for name in ("crash", "hang"):
                path = os.path.join(self.folder, name + ".safetensors")
                file.write(PROFILE.format(name=name, diffusion=path, demo=DEMO, vae=DEMO / "vae.safetensors"))
                with open(path, "wb") as model:
                    model.write(b"x")
        super().begin()


class Catalogued(Serve):
    """With the tests' own catalogue (tests/catalog/files.py), whose files come from `mirror`."""

    program = os.environ.get("KUNO_CATALOG")


def state_of(pid):
    """A letter of ps(1); that of the dead also if there is none."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def is_alive(pid):
    """Not one that has ended and waits to be buried, by a first process that may be in no hurry."""
    return state_of(pid) not in "ZX"


def wait_until_gone(pids, seconds):
    """Those that are not."""
    end = time.monotonic() + seconds
    while any(map(is_alive, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    return [pid for pid in pids if is_alive(pid)]
