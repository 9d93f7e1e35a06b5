"""Many clients at once who order, cancel, wait, watch and leave in the middle, and whoever counts the ends of jobs."""

import contextlib
import http.client
import json
import random
import socket
import threading
import time

from studio import agreement
from studio.rig import PATIENCE, TOKEN, png

SMALL = {"mode": "custom", "width": 64, "height": 64}
LATER = (429, 503, 507)  # and then once more
JOB_S = 10  # of a slow machine with sanitizers


class Crowd:
    """`jobs` orders by `clients` threads. Each order has a key, so that it is one job however often it is sent."""

    def __init__(self, rig, jobs, clients, seed=0):
        self.rig, self.each, self.own, self.failures, self.refusals = rig, jobs // clients, [], [], []
        self.threads = [threading.Thread(target=self.client, args=(f"{seed}-{n}",)) for n in range(clients)]

    def __enter__(self):
        for one in self.threads:
            one.start()
        return self

    def __exit__(self, *_):
        for one in self.threads:
            one.join()
        if self.failures:
            raise self.failures[0]
        end = time.monotonic() + PATIENCE + JOB_S * self.each * len(self.threads)
        while self.unfinished() or self.unfinished_after_all_was_read():
            if time.monotonic() > end:
                raise AssertionError(f"{self.unfinished()} jobs do not end")
            time.sleep(0.2)

    def unfinished(self):
        return agreement.rows(self.rig, "SELECT count(*) FROM jobs WHERE state IN ('queued', 'running')")[0][0]

    def unfinished_after_all_was_read(self):
        """What clients who left had sent is read before what comes later."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            self.rig.get("/jobs?limit=1")
        return self.unfinished()

    def client(self, name):
        dice = random.Random(name)
        acts = (self.cancel, self.cancel, self.leave_while_sending, self.leave_while_waiting, self.leave_a_stream,
                self.leave_an_order, self.wait, self.upload, self.look, self.change, self.delete)
        try:
            for n in range(self.each):
                self.order(dice, f"{name}-{n}")
                dice.choice(acts)(dice)
        except Exception as failure:
            self.failures.append(failure)

    def ask(self, what, *good):
        """Until it is answered: the service may be away, or its storage."""
        end = time.monotonic() + 2 * PATIENCE
        while time.monotonic() < end:
            try:
                answer = what()
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)
                continue
            if answer.status in good:
                return answer
            if answer.status not in LATER:
                raise AssertionError(f"{answer.status}: {answer.body}")
            self.refusals.append(answer["code"])
            time.sleep(0.1)
        raise AssertionError("there is no answer")

    def order(self, dice, key):
        order = {"prompt": f"a boat {key}", "size": SMALL, "batch": dice.choice((1, 1, 1, 2)),
                 "output": {"save_to_gallery": dice.random() < 0.8}}
        self.own.append(self.ask(lambda: self.rig.post("/jobs", order, Idempotency_Key=key), 202)["id"])

    def cancel(self, dice):
        job = dice.choice(self.own)
        self.ask(lambda: self.rig.post(f"/jobs/{job}/cancel"), 200, 202)

    def wait(self, dice):
        job = dice.choice(self.own)
        self.ask(lambda: self.rig.get(f"/jobs/{job}?wait_ms={dice.randrange(2000)}"), 200)

    def upload(self, dice):
        """The same picture may come from others, too."""
        picture = png(dice.randrange(16, 64), 16, dice.randrange(4))
        self.ask(lambda: self.rig.post("/inputs", picture, type="image/png"), 200, 201)

    def pick(self, dice):
        items = self.ask(lambda: self.rig.get("/gallery?limit=20"), 200)["items"]
        return dice.choice(items)["id"] if items else "img_" + "0" * 26

    def look(self, dice):
        item = self.pick(dice)
        self.ask(lambda: self.rig.get(f"/gallery/{item}/thumbnail?size={dice.choice((32, 48))}"), 200, 404)

    def change(self, dice):
        item, new = self.pick(dice), {"favorite": dice.random() < 0.5, "tags": [f"tag {dice.randrange(9)}"]}
        self.ask(lambda: self.rig.ask("PATCH", f"/gallery/{item}", new), 200, 404)

    def delete(self, dice):
        item = self.pick(dice)
        self.ask(lambda: self.rig.ask("DELETE", f"/gallery/{item}"), 204, 404)

    def leave(self, method, path, dice, length=0, body=b"", listen=False):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.rig.port), PATIENCE) as s:
            s.sendall(f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.rig.port}\r\nAuthorization: Bearer {TOKEN}"
                      f"\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n".encode() + body)
            if listen:
                s.recv(100)
            time.sleep(dice.random() * 0.2)

    def leave_while_sending(self, dice):
        self.leave("POST", "/api/v1/jobs", dice, 500, b'{"prompt": ')

    def leave_while_waiting(self, dice):
        self.leave("GET", f"/api/v1/jobs/{dice.choice(self.own)}?wait_ms=60000", dice)

    def leave_a_stream(self, dice):
        self.leave("GET", "/api/v1/events", dice, listen=True)

    def leave_an_order(self, dice):
        """Its job, if it came to one, is cancelled or has ended."""
        body = json.dumps({"prompt": "a boat of nobody"}).encode()
        self.leave("POST", "/v1/images/generations", dice, len(body), body)


class Ends:
    """Counts how often the stream of events tells the end of each job."""

    def __init__(self, rig):
        self.rig, self.ends, self.done, self.begun = rig, {}, threading.Event(), threading.Event()
        threading.Thread(target=self.watch, daemon=True).start()
        if not self.begun.wait(PATIENCE):
            raise AssertionError("there are no events")

    def watch(self):
        try:
            with self.rig.events() as events:
                self.begun.set()
                for event in events:
                    if event.kind in ("job.completed", "job.failed", "job.cancelled"):
                        job = event.data["id"]
                        self.ends[job] = self.ends.get(job, []) + [event.data["state"]]
                    if event.kind == "settings.updated":
                        break
        finally:
            self.done.set()

    def all(self):
        """Everything until now."""
        blend = self.rig.get("/settings")["upscale_blend"]
        self.rig.ask("PATCH", "/settings", {"upscale_blend": 0.5 if blend != 0.5 else 0.25})
        if not self.done.wait(5 * PATIENCE):  # each is held against its description
            raise AssertionError("the events do not come to an end")
        return self.ends
