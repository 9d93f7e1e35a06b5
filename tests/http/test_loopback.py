"""A listener on loopback that browsers can reach: Host, Origin, credential, paths and bodies, in this order. It is the
owner's, or the studio's."""

import http.client
import json
import time

import tap
from wire import STUDIO, TOKEN, Case

GET, POST, BODY, LIMIT = (("/api/v1/status", "/api/v1/plan", '{"prompt":"x"}', 1 << 20) if STUDIO else
                          ("/kuno/v1/status", "/kuno/v1/admission/pause", '{"reason":"x"}', 1 << 16))
ROOT = GET.rpartition("/")[0]
JSON = ("Content-Type", "application/json")


class Loopback(Case):
    def setUp(self):
        super().setUp()
        self.port = self.bench.studio if STUDIO else self.bench.control
        self.own = f"127.0.0.1:{self.port}"

    def ask(self, *fields, method="GET", path=GET, body=None, host=None, token=TOKEN):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        connection.putheader("Host", self.own if host is None else host)
        if token:
            connection.putheader("Authorization", f"Bearer {token}")
        for name, value in fields:
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body.encode())))
        connection.endheaders(body.encode() if body is not None else None)
        response = connection.getresponse()
        response.content = response.read()
        connection.close()
        return response

    def is_problem(self, response, *statuses):
        self.assertIn(response.status, statuses)
        self.assertEqual(response.getheader("Content-Type"), "application/problem+json")
        problem = json.loads(response.content)
        self.assertEqual(problem["status"], response.status)
        self.assertEqual(problem["type"], "urn:kuno:problem:" + problem["code"].replace("_", "-"))
        self.assertTrue(problem["title"])

    def test_good(self):
        """a good request is answered"""
        self.assertEqual(self.ask().status, 200)

    def test_nosniff(self):
        """answers say what they are and are not guessed at"""
        self.assertEqual(self.ask().getheader("X-Content-Type-Options"), "nosniff")

    def test_no_store(self):
        """answers are not stored"""
        self.assertIn("no-store", self.ask().getheader("Cache-Control"))

    def test_no_cors(self):
        """no page is ever given leave"""
        self.assertFalse([k for k, _ in self.ask().getheaders() if k.lower().startswith("access-control-")])

    def test_host_before_credential(self):
        """Host is looked at before the credential"""
        self.assertIn(self.ask(host="evil.example", token=None).status, (421, 400))

    def test_own_origin(self):
        """our own page may ask"""
        self.assertEqual(self.ask(("Origin", f"http://{self.own}")).status, 200)

    def test_cross_site(self):
        """a fetch from another site may not"""
        response = self.ask(("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors"))
        self.assertEqual(response.status, 403)

    def test_same_site(self):
        """nor one from another port of this machine"""
        self.assertEqual(self.ask(("Sec-Fetch-Site", "same-site")).status, 403)

    def test_no_credential(self):
        """no credential is 401 and says which kind is wanted"""
        response = self.ask(token=None)
        self.is_problem(response, 401)
        self.assertTrue(response.getheader("WWW-Authenticate").startswith("Bearer"))

    def test_wrong_scheme(self):
        """a credential of another kind is 401"""
        self.assertEqual(self.ask(("Authorization", f"Basic {TOKEN}"), token=None).status, 401)

    def test_two_credentials(self):
        """two credentials are none"""
        self.assertIn(self.ask(("Authorization", f"Bearer {TOKEN}")).status, (400, 401))

    def test_query(self):
        """a credential in the query is none"""
        self.assertEqual(self.ask(path=f"{GET}?access_token={TOKEN}&token={TOKEN}", token=None).status, 401)

    def test_unknown_route(self):
        """an unknown route is 404"""
        self.is_problem(self.ask(path=f"{ROOT}/no-such-route"), 404)

    def test_wrong_method(self):
        """another method is 405 with those that are allowed"""
        response = self.ask(JSON, method="PATCH", body="{}")
        self.is_problem(response, 405)
        self.assertEqual(response.getheader("Allow"), "GET, HEAD")

    def test_coded_body(self):
        """a compressed body is 415"""
        response = self.ask(JSON, ("Content-Encoding", "gzip"), method="POST", path=POST, body=BODY)
        self.assertEqual(response.status, 415)

    def test_json_with_charset(self):
        """JSON that says UTF-8 is taken"""
        response = self.ask((JSON[0], JSON[1] + "; charset=utf-8"), method="POST", path=POST, body=BODY)
        self.assertEqual(response.status, 200)

    def test_no_body(self):
        """no body at all is taken where none is needed"""
        self.assertEqual(self.ask(method="POST", path=POST).status, 400 if STUDIO else 200)

    def test_body_beyond_the_limit(self):
        """a body beyond the limit is 413"""
        self.is_problem(self.ask(JSON, method="POST", path=POST, body="[" + " " * LIMIT + "]"), 413)

    def test_body_said_to_be_beyond_the_limit(self):
        """so is one that only says so, of which nothing is waited for"""
        fields = JSON, ("Content-Length", str(LIMIT + 1)), ("Expect", "100-continue")
        response = self.ask(*fields, method="POST", path=POST)
        self.is_problem(response, 413)
        self.assertEqual(response.getheader("Connection"), "close")

    def test_many_failures(self):
        """wrong credentials are slowed down, the right one is not"""
        begun = time.monotonic()
        statuses = [self.ask(token=TOKEN + "x").status for _ in range(40)]
        self.assertEqual((statuses[0], set(statuses)), (401, {401, 429}))
        self.assertLessEqual(statuses.count(401), 31 + 2 * (time.monotonic() - begun))  # at once, and per second
        self.assertEqual(self.ask().status, 200)


def add_case(name, promise, run):
    run.__doc__ = promise
    setattr(Loopback, f"test_{name}", run)


def add_cases():
    names = ["127.0.0.1:{}", "localhost:{}", "LOCALHOST:{}", "[::1]:{}"]
    for i, name in enumerate(names):
        add_case(
            f"own_host_{i}",
            f"{name.format('PORT')} is a name of ours",
            lambda self, n=name: self.assertEqual(self.ask(host=n.format(self.port)).status, 200),
        )
    foreign = ["evil.example", "evil.example:{}", "127.0.0.1.evil.example:{}", "localhost.evil.example:{}"]
    foreign += ["127.0.0.1:1", "127.0.0.2:{}", "0.0.0.0:{}", "user@127.0.0.1:{}", ""]
    for i, name in enumerate(foreign):
        add_case(
            f"foreign_host_{i}",
            f"Host '{name.format('PORT')}' is not ours",
            lambda self, n=name: self.assertIn(self.ask(host=n.format(self.port)).status, (421, 400)),
        )
    origins = ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1:{}", "http://evil.example:{}"]
    for i, origin in enumerate(origins):
        for method in ("GET", "HEAD", "OPTIONS"):

            def refused(self, origin=origin, method=method):
                response = self.ask(("Origin", origin.format(self.port)), method=method)
                self.assertEqual(response.status, 403)
                self.assertIsNone(response.getheader("Access-Control-Allow-Origin"))

            add_case(f"origin_{i}_{method}", f"{method} from {origin.format('PORT')} is refused", refused)
    for i, token in enumerate([TOKEN[:-1], TOKEN + "x", TOKEN.swapcase(), " "]):
        add_case(
            f"token_{i}",
            f"wrong token {i} is 401",
            lambda self, t=token: self.assertEqual(self.ask(token=t).status, 401),
        )
    paths = [GET + "%00", GET.replace("/v1", "%2fv1"), GET + "/..%2f", "//" + GET.lstrip("/")]
    paths += [GET + "/..", GET + "%c0%af", GET + "%", GET + "/"]
    for i, path in enumerate(paths):
        add_case(
            f"path_{i}", f"path {path} is no other way to a route", lambda self, p=path: self.assertIn(
                self.ask(path=p).status, (400, 404)
            )
        )
    types = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", None]
    for i, kind in enumerate(types):

        def unsupported(self, kind=kind):
            fields = [("Content-Type", kind)] if kind else []
            self.assertEqual(self.ask(*fields, method="POST", path=POST, body=BODY).status, 415)

        add_case(f"type_{i}", f"a body of type {kind} is 415", unsupported)
    bodies = ["", "{", "[]", '{"a":1,"a":2}', '{"no_such_member":1}', '"x"', "{}x", "\ufeff{}", '{"a":' * 5000]
    for i, body in enumerate(bodies):
        add_case(
            f"body_{i}",
            f"body {body[:20]!r} is a problem",
            lambda self, b=body: self.is_problem(self.ask(JSON, method="POST", path=POST, body=b), 400, 422),
        )


add_cases()
if __name__ == "__main__":
    tap.main()
