"""The studio rig as its clients meet it. STUDIO_RIG names the program (rig.c)."""

import contextlib
import http.client
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

import findings
from cli.png import png_file
from studio import described

PROGRAM = os.environ.get("STUDIO_RIG")
TOKEN = "0123456789abcdef-studio.token-0123456789"
PATIENCE = int(os.environ.get("KUNO_PATIENCE", 60))
DOCUMENT = None if described.WHY_NOT else described.Document()
ENDED = ("completed", "failed", "cancelled")
SANITIZED = os.environ.get("KUNO_SANITIZE", "none") != "none"


def png(width, height, shade=128):
    """A grey picture file."""
    return png_file(width, height, 0, b"".join(b"\0" + bytes([shade]) * width for _ in range(height)))


def form(*parts, boundary="b0undary"):
    """A body of multipart/form-data: (name, text) or (name, file name, bytes)."""
    body = b""
    for name, *rest in parts:
        more = f'; filename="{rest[0]}"\r\nContent-Type: application/octet-stream' if len(rest) > 1 else ""
        content = rest[-1] if isinstance(rest[-1], bytes) else rest[-1].encode()
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'
        body += head.encode() + content + b"\r\n"
    return body + f"--{boundary}--\r\n".encode()


FORM = "multipart/form-data; boundary=b0undary"


def parts_of_model(path):
    """What a profile has to name, all of it in one file that nobody reads."""
    return [{"role": role, "path": path} for role in ("diffusion", "text_encoder", "vae")]


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def __getitem__(self, name):
        return self.json[name]

    @property
    def json(self):
        return json.loads(self.body)


class Event:
    def __init__(self, lines):
        fields = dict(line.split(": ", 1) for line in lines if ": " in line)
        self.id, self.kind = fields.get("id"), fields.get("event")
        self.data = json.loads(fields["data"]) if "data" in fields else None
        if DOCUMENT and self.kind:
            DOCUMENT.check_event(self.kind, self.data)


class Rig:
    """A folder with a studio that can be ended and begun again."""

    token = TOKEN

    def __init__(self, within=None, mirror=None):
        self.mirror = mirror
        self.folder = tempfile.mkdtemp(prefix="kuno-studio-", dir=within)
        self.process = None
        self.begin()

    def begin(self):
        with open(os.path.join(self.folder, "log"), "a") as log:
            more = [self.mirror] if self.mirror else []
            command = [PROGRAM, os.path.join(self.folder, "studio"), self.token, *more]
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        with self.process.stdout as stream:
            line = stream.readline()
        if not line.startswith("port="):
            self.process.wait(PATIENCE)
            raise AssertionError(f"the rig does not begin: {self.log}")
        self.port = int(line[5:])

    @property
    def log(self):
        with open(os.path.join(self.folder, "log")) as file:
            return file.read()

    def begin_after_death(self):
        """Begins although the process may die again at once."""
        with contextlib.suppress(AssertionError):
            self.begin()

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def wait(self, hours=0, minutes=0):
        """Lets so much time pass on its clocks."""
        for number in hours * [signal.SIGUSR2] + minutes * [signal.SIGUSR1]:
            self.process.send_signal(number)
            self.get("/health", token=None)  # answered later than the signal came

    def close(self):
        if self.process.poll() is None:
            status = self.end()
            if status:
                raise AssertionError(f"the rig ended with {status}: {self.log}")
        findings.check(self.process.returncode, self.log)
        shutil.rmtree(self.folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def ask(self, method, path, body=None, **more):
        """One request to /api/v1."""
        return self.send(method, "/api/v1" + path, body, **more)

    def send(self, method, path, body=None, type="application/json", token=TOKEN, timeout=PATIENCE, **headers):
        """One request; a body that is no bytes is sent as JSON. Header names have _ for -."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            fields["Authorization"] = "Bearer " + token
        if body is not None:
            fields["Content-Type"] = type
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
        with contextlib.closing(connection):
            connection.request(method, path, body, fields)
            answer = connection.getresponse()
            content = answer.read()
            if DOCUMENT and path.startswith("/api/v1/"):
                DOCUMENT.check(method, path, answer.status, answer.headers, content)
            return Answer(answer.status, answer.headers, content)

    def get(self, path, **more):
        return self.ask("GET", path, **more)

    def post(self, path, body=None, **more):
        return self.ask("POST", path, body, **more)

    def job(self, prompt="a red boat", **more):
        answer = self.post("/jobs", {"prompt": prompt, **more})
        if answer.status != 202:
            raise AssertionError(f"{answer.status}: {answer.body}")
        return answer["id"]

    def ended(self, job):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            answer = self.get(f"/jobs/{job}?wait_ms=10000")
            if answer["state"] in ENDED:
                return answer.json
        raise AssertionError(f"{job} does not end")

    def upload(self, picture):
        answer = self.post("/inputs", picture, type="image/png")
        if answer.status not in (200, 201):
            raise AssertionError(f"{answer.status}: {answer.body}")
        return answer["input_id"]

    def edit_by_default(self):
        """A model that edits, which the built-in one cannot, becomes the one that is used."""
        path = os.path.join(self.folder, "editor.safetensors")
        with open(path, "wb") as file:
            file.write(b"x")
        profile = {"model": "qwen-image-2.1", "files": parts_of_model(path)}
        for answer in (self.ask("PUT", "/models/editor", profile), self.post("/models/editor/activate")):
            if answer.status not in (200, 201):
                raise AssertionError(f"{answer.status}: {answer.body}")

    @contextlib.contextmanager
    def events(self, path="/events", **headers):
        """The events of a stream, one by one."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("GET", "/api/v1" + path, headers={"Authorization": "Bearer " + TOKEN, **fields})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        if DOCUMENT:
            named = DOCUMENT.answers_of("GET", "/api/v1" + path)["200"]["headers"]
            assert all(name in answer.headers for name in named), answer.headers
        assert answer.headers["Content-Type"] == "text/event-stream"

        def read():
            lines, end = [], time.monotonic() + PATIENCE
            for raw in answer:
                line = raw.decode().rstrip("\n")
                if line:
                    lines.append(line)
                    continue
                event = Event(lines)
                lines = []
                if event.kind:
                    yield event
                    end = time.monotonic() + PATIENCE
                elif time.monotonic() > end:  # the stream is kept alive all the time
                    raise AssertionError("no event comes")

        try:
            yield read()
        finally:
            answer.close()
            connection.close()
