"""Sessions of the page, and links that begin one: how long they are good, and that their secrets stay secret."""

import os
import signal
import unittest

import tap
from studio.rig import TOKEN, Rig
from studio.serve import Serve

OTHER_TOKEN = "another-token-of-the-same-studio-0123456789"


class Session:
    """One that was begun with this secret: a token, or the code of a link."""

    def __init__(self, rig, secret):
        self.rig = rig
        answer = rig.post("/session", {"token": secret}, token=None)
        self.status = answer.status
        if self.status == 200:
            self.cookie = answer.headers["Set-Cookie"].split(";")[0].split("=")[1]
            self.csrf = answer["csrf_token"]

    @property
    def field(self):
        return f"kuno_session_{self.rig.port}={self.cookie}"

    def ask(self, method, path, body=None, **more):
        return self.rig.ask(method, path, body, token=None, Cookie=self.field, **more).status

    @property
    def is_good(self):
        """For what changes nothing, and for what does."""
        answers = self.ask("GET", "/status"), self.ask("POST", "/plan", {"prompt": "a"}, X_Kuno_Csrf=self.csrf)
        if answers not in ((200, 200), (401, 401)):
            raise AssertionError(answers)
        return answers == (200, 200)


def link(rig):
    return rig.post("/session/link")["code"]


class Sessions(unittest.TestCase):
    def test_a_link_that_nobody_has_used_is_good_for_two_minutes(self):
        with Rig() as rig:
            soon, late = link(rig), link(rig)
            rig.wait(minutes=1)
            self.assertTrue(Session(rig, soon).is_good)
            rig.wait(minutes=1)
            self.assertEqual(Session(rig, late).status, 401)
            self.assertTrue(Session(rig, link(rig)).is_good)

    def test_services_on_one_machine_keep_out_of_each_others_sessions(self):
        with Rig() as one, Rig() as other:
            jar = {}  # as browsers keep them: by name, whatever the port
            for rig in one, other:
                told = rig.post("/session", {"token": TOKEN}, token=None).headers["Set-Cookie"]
                name, value = told.split(";")[0].split("=")
                jar[name] = value
            cookies = "; ".join(f"{name}={value}" for name, value in jar.items())
            for rig in one, other:
                self.assertEqual(rig.get("/status", token=None, Cookie=cookies).status, 200)

    def test_a_link_is_gone_with_the_service_that_gave_it(self):
        with Rig() as rig:
            code = link(rig)
            rig.end()
            rig.begin()
            self.assertEqual(Session(rig, code).status, 401)

    def test_a_session_ends_after_twelve_hours(self):
        with Rig() as rig:
            first = Session(rig, TOKEN)
            rig.wait(hours=11)
            second = Session(rig, TOKEN)
            self.assertEqual((first.is_good, second.is_good), (True, True))
            rig.wait(hours=1)
            self.assertEqual((first.is_good, second.is_good), (False, True))

    def test_sessions_last_through_the_end_of_the_service_but_those_that_were_ended(self):
        with Rig() as rig:
            by_link, by_token, ended = Session(rig, link(rig)), Session(rig, TOKEN), Session(rig, TOKEN)
            self.assertEqual(ended.ask("DELETE", "/session", X_Kuno_Csrf=ended.csrf), 204)
            for number in (signal.SIGTERM, signal.SIGKILL):
                rig.end(number)
                rig.begin()
                self.assertEqual([one.is_good for one in (by_link, by_token, ended)], [True, True, False])
                self.assertEqual(by_link.ask("POST", "/plan", {"prompt": "a"}, X_Kuno_Csrf=by_token.csrf), 403)

    def test_another_token_ends_all_sessions(self):
        with Rig() as rig:
            session = Session(rig, TOKEN)
            rig.end()
            rig.token = OTHER_TOKEN
            rig.begin()
            self.assertFalse(session.is_good)
            self.assertTrue(Session(rig, OTHER_TOKEN).is_good)

    def test_there_is_room_for_sixty_four(self):
        with Rig() as rig:
            first = Session(rig, TOKEN)
            rig.wait(minutes=1)
            others = [Session(rig, TOKEN) for _ in range(64)]
            for _ in range(2):
                self.assertFalse(first.is_good)
                self.assertTrue(all(one.is_good for one in others))
                rig.end()
                rig.begin()

    def test_no_secret_is_in_a_log_or_in_a_file(self):
        for kind in (Rig, Serve):
            with kind() as rig:
                code = link(rig)
                session = Session(rig, code)
                self.assertTrue(session.is_good)
                self.assertEqual(Session(rig, code).status, 401)
                rig.get("/status", token="x" * 40)
                rig.end()
                for folder, _, names in os.walk(rig.folder):
                    for name in names:
                        with open(os.path.join(folder, name), "rb") as file:
                            content = file.read()
                        for secret in (TOKEN, code, session.cookie, session.csrf):
                            self.assertNotIn(secret.encode(), content, f"{kind.__name__}: {name}")


tap.main()
