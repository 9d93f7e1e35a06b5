"""Kuno as a service of systemd (kuno.service) on a machine of its own, and what must never be found there."""

import contextlib
import http.client
import json
import os
import pathlib
import signal
import subprocess
import time

from studio import agreement, rig

TOKEN = "a-canary-for-a-token-0123456789-abcdefghij"
PROMPT = "a canary for a prompt, yellow and loud"
NAME = "a-canary-for-a-prompt"  # what pictures are called after it
STATE = "/var/lib/private/kuno"
HERE = pathlib.Path(__file__).parent
CONTROL, STUDIO = 11432, 39151  # as they are without further ado
SMALL = {"mode": "custom", "width": 64, "height": 64}  # it is an emulated processor that draws
KNOWN = pathlib.Path("/kuno/jobs.json")  # what the tests of one start leave for those of the next


def systemctl(*words):
    return subprocess.run(["systemctl", *words], check=True, capture_output=True, text=True).stdout.strip()


def install(isolation="required"):
    """As an administrator does it."""
    config = {"listen": "127.0.0.1:11434", "upstream": "127.0.0.1:11435", "control": f"127.0.0.1:{CONTROL}",
              "state_dir": "/var/lib/kuno", "studio": {"isolation": isolation}, "image": {"isolation": isolation}}
    folder = pathlib.Path("/etc/kuno")
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    token = folder / "control-token"
    token.touch(mode=0o600)
    token.write_text(TOKEN + "\n")
    unit = pathlib.Path("/etc/systemd/system/kuno.service")
    unit.write_bytes((HERE / "kuno.service").read_bytes())
    systemctl("daemon-reload")
    systemctl("enable", "kuno.service")
    systemctl("restart", "kuno.service")


def wait_until(true, what, gap=0.1):
    end = time.monotonic() + rig.PATIENCE
    while not true():
        if time.monotonic() > end:
            raise AssertionError(f"{what} does not come")
        time.sleep(gap)


def workers():
    """Processes that draw."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if b"\0--upscalers\0" in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return found


class Service(rig.Rig):
    """The same requests as to any other studio, with the token of this service."""

    def __init__(self):
        self.folder, self.port, self.process = STATE, STUDIO, None
        wait_until(self.answers, "the service")

    def close(self):
        """It goes on."""

    def send(self, method, path, body=None, token=TOKEN, **more):
        return super().send(method, path, body, token=token, **more)

    def answers(self):
        with contextlib.suppress(OSError):
            return self.get("/health", token=None).status == 200
        return False

    def control(self, method, route, body=None):
        """The owner asks the gateway: (status, document)."""
        connection = http.client.HTTPConnection("127.0.0.1", CONTROL, timeout=rig.PATIENCE)
        with contextlib.closing(connection):
            connection.request(method, "/kuno/v1/" + route, body and json.dumps(body).encode(),
                               {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.load(answer)

    def status(self):
        return self.control("GET", "status")[1]

    def refused_by_route(self):
        """Why a picture was not drawn that a program asked for."""
        status, problem = self.control("POST", "images/generate", {
            "workflow": "qwen-image-2.1-text-to-image/v1", "prompt": PROMPT, "seed": "1", "width": 64, "height": 64,
            "steps": 8, "cfg": 1})
        return status, problem["code"], problem["detail"]

    def main(self):
        return int(systemctl("show", "--property=MainPID", "--value", "kuno.service"))

    def worker(self):
        """The one that draws."""
        wait_until(workers, "the worker")
        return workers()[0]

    def held(self):
        """A job of which a part is done, and the worker that is drawing another and goes no further. So it is the same
        how fast the machine is."""
        job = self.job(PROMPT, size=SMALL, batch=3)
        worker = self.worker()
        wait_until(lambda: self.get(f"/jobs/{job}").json["progress"]["image_index"] >= 1, "the first picture", gap=0)
        os.kill(worker, signal.SIGSTOP)
        return job, worker

    def wait_next(self, before):
        """Another process is the service now, and it answers."""
        wait_until(lambda: self.main() not in (0, before), "the next service")
        wait_until(self.answers, "the service")


def check(test, service, jobs):
    """They complete, each job that there is ends once, and everything agrees. Returns what attempts they took."""
    ended = [service.ended(job) for job in jobs]
    test.assertEqual([(one["state"], one["error"]) for one in ended], [("completed", None)] * len(jobs))
    agreement.check(test, service)
    test.assertEqual(service.status()["admission"]["state"], "open")
    return [one["attempts"] for one in ended]


def leave(service):
    """One job that is being drawn and one that waits, for the tests of the next start."""
    jobs = [service.held()[0], service.job(PROMPT, size=SMALL)]
    with open(KNOWN, "w", encoding="ascii") as file:
        json.dump(jobs, file)
        file.flush()
        os.fsync(file.fileno())  # and nothing else: the service has to see to its own files


def left():
    return json.loads(KNOWN.read_text())


def files_with(word):
    """Those on the disk and in memory in which it stands, but for what belongs to tests and to the kernel."""
    found = subprocess.run(["grep", "--recursive", "--files-with-matches", "--binary-files=text", "--fixed-strings",
                            "--devices=skip", "--", word, "/etc", "/run", "/tmp", "/var", "/root", "/home", "/dev/shm"],
                           capture_output=True, text=True, check=False)
    return found.stdout.split()


def journal():
    """All of it, of every start, with every field."""
    return subprocess.run(["journalctl", "--all", "--output=export"], check=True, capture_output=True).stdout


def check_privacy(test):
    """What people write is where they look for it, and nowhere else."""
    told = journal()
    test.assertIn(b"_SYSTEMD_UNIT=kuno.service", told)
    for canary in (PROMPT, NAME, TOKEN):
        test.assertNotIn(canary.encode(), told)
    for canary in (PROMPT, NAME):
        found = set(files_with(canary))
        test.assertTrue(found & {f"{STATE}/studio/studio.db", f"{STATE}/studio/studio.db-wal"})
        for path in found:
            test.assertRegex(path, rf"^{STATE}/studio/(studio\.db(-wal)?|gallery/[^/]+)$")
    test.assertEqual(sorted(files_with(TOKEN)),
                     ["/etc/kuno/control-token", "/run/credentials/kuno.service/control-token"])
