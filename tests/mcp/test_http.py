"""/mcp on the studio's listener: requests as bytes, in both eras."""

import base64
import contextlib
import http.client
import json
import random
import time
import unittest

import tap
from studio.rig import PATIENCE, TOKEN, Rig, png_file
from talk import HANDSHAKE, LEGACY, MODERN, SLOW, SPACE, Studio, call, envelope, note, request

PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602
NOT_FOUND, HEADER_MISMATCH, UNSUPPORTED_VERSION = -32002, -32020, -32022
BOTH = "application/json, text/event-stream"


class Heard:
    """An answer: its status, its head and the messages in it."""

    def __init__(self, answer):
        self.status, self.headers, body = answer.status, answer.headers, answer.read()
        self.streamed = self.headers.get("Content-Type") == "text/event-stream"
        self.body = body
        if self.streamed:
            self.messages = [json.loads(line[6:]) for line in body.decode().split("\n") if line.startswith("data: ")]
        else:
            self.messages = [json.loads(body)] if body else []

    @property
    def last(self):
        return self.messages[-1]

    @property
    def code(self):
        return self.last.get("error", {}).get("code") if self.messages else None


class Case(unittest.TestCase):
    maxDiff = 3000

    @classmethod
    def setUpClass(cls):
        cls.studio = Studio()
        cls.addClassCleanup(cls.studio.close)

    @contextlib.contextmanager
    def asking(self, message, method="POST", drop=(), path="/mcp", token=TOKEN, more=(), length=None,
               **headers):
        """A request whose answer is being read. `more`: pairs, also of names that come twice."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        fields = {"Content-Type": "application/json", "Accept": BOTH,
                  **({"Authorization": "Bearer " + token} if token else {}),
                  **{name.replace("_", "-"): value for name, value in headers.items()}}
        connection = http.client.HTTPConnection("127.0.0.1", self.studio.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.putrequest(method, path, skip_host="Host" in fields)
            for name, value in [*fields.items(), *more, ("Content-Length", str(length or len(body)))]:
                if name not in drop:
                    connection.putheader(name, value)
            connection.endheaders(body)
            yield connection

    def post(self, message, **more):
        with self.asking(message, **more) as connection:
            return Heard(connection.getresponse())

    def old(self, message, **more):
        return self.post(message, MCP_Protocol_Version=LEGACY, **more)

    @staticmethod
    def modern(message, version=MODERN, **meta):
        """A request of the newer era and its headers."""
        params = message.get("params", {})
        message = {**message, "params": {**params, "_meta": envelope(version, **params.get("_meta", {}), **meta)}}
        name = params.get("name", params.get("uri"))
        fields = {"MCP_Protocol_Version": version, "Mcp_Method": message["method"]}
        return message, {**fields, **({"Mcp_Name": name} if name is not None else {})}

    def new(self, message, version=MODERN, more=(), method="POST", drop=(), token=TOKEN, **headers):
        message, fields = self.modern(message, version)
        return self.post(message, more=more, method=method, drop=drop, token=token, **{**fields, **headers})

    def is_refused(self, heard, status, code):
        self.assertEqual((heard.status, heard.code), (status, code), heard.body)


class Doors(Case):
    def test_only_who_has_the_token_and_is_no_foreign_page_comes_in(self):
        listing = request(1, "tools/list")
        for status, more in ((401, {"token": None}), (401, {"token": "wrong" * 8}),
                             (421, {"Host": "evil.example"}), (421, {"Host": f"evil.example:{self.studio.port}"}),
                             (403, {"Origin": "http://evil.example"}), (403, {"Sec_Fetch_Site": "cross-site"})):
            heard = self.old(listing, **more)
            self.assertEqual((more, heard.status), (more, status))
            if status == 401:
                self.assertIn("Bearer", heard.headers["WWW-Authenticate"])
        own = self.old(listing, Origin=f"http://127.0.0.1:{self.studio.port}")
        self.assertEqual(own.status, 200)

    def test_there_is_no_other_way_to_log_in(self):
        for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp",
                     "/.well-known/oauth-authorization-server"):
            self.assertEqual(self.studio.send("GET", path, token=None).status, 404)

    def test_requests_of_another_form_are_refused(self):
        listing = request(1, "tools/list")
        for status, more in ((405, {"method": "GET"}), (405, {"method": "DELETE"}), (405, {"method": "PUT"}),
                             (415, {"Content_Type": "text/plain"}), (415, {"Content_Encoding": "gzip"}),
                             (406, {"Accept": "application/json"}), (406, {"Accept": "text/event-stream"}),
                             (406, {"drop": ("Accept",)}), (413, {"length": 65 << 20}),
                             (404, {"Mcp_Session_Id": "what"}), (404, {"path": "/mcp/"})):
            heard = self.old(listing, **more)
            self.assertEqual((more, heard.status), (more, status))
            if status == 405:
                self.assertEqual(heard.headers["Allow"], "POST")
        for accept in ("*/*", "application/*;q=0.5, text/*", "TEXT/EVENT-STREAM,application/json"):
            self.assertEqual(self.old(listing, Accept=accept).status, 200)

    def test_messages_that_are_none_are_refused(self):
        for headers in ({}, {"MCP_Protocol_Version": LEGACY}, {"MCP_Protocol_Version": MODERN}):
            for text, code in ((b"{nope", PARSE_ERROR), (b"", PARSE_ERROR), (b"[]", INVALID_REQUEST),
                               (b'[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]', INVALID_REQUEST)):
                heard = self.post(text, **headers)
                self.is_refused(heard, 400, code)
                self.assertIsNone(heard.last["id"])


class Eras(Case):
    def test_the_older_era_begins_with_a_handshake_and_a_session(self):
        heard = self.post(request(1, "initialize", HANDSHAKE))
        self.assertEqual((heard.status, heard.last["result"]["protocolVersion"]), (200, LEGACY))
        session = heard.headers["Mcp-Session-Id"]
        self.assertRegex(session, "^[0-9a-f]{32}$")
        told = self.old(note("notifications/initialized"), Mcp_Session_Id=session)
        self.assertEqual((told.status, told.body), (202, b""))
        for headers in ({}, {"Mcp_Session_Id": session}, {"MCP_Protocol_Version": "2024-11-05"}):
            heard = self.post(call(2, "get_status"), **headers)
            self.assertEqual((heard.status, heard.last["result"]["structuredContent"]["state"]), (200, "ready"))
            self.assertNotIn("Mcp-Session-Id", heard.headers)

    def test_errors_of_the_older_era_come_with_200(self):
        for message, code in ((request(1, "no/such"), UNKNOWN_METHOD), (call(1, "no_such"), INVALID_PARAMS),
                              (request(1, "resources/read", {"uri": "kuno://x"}), NOT_FOUND)):
            self.is_refused(self.old(message), 200, code)

    def test_the_newer_era_needs_nothing_before(self):
        heard = self.new(request(1, "server/discover"))
        self.assertEqual((heard.status, heard.last["result"]["resultType"]), (200, "complete"))
        self.assertNotIn("Mcp-Session-Id", heard.headers)
        heard = self.new(call(2, "get_status"))
        self.assertEqual(heard.last["result"]["_meta"][SPACE + "serverInfo"]["name"], "kuno")

    def test_headers_say_what_the_body_says(self):
        status = call(1, "get_status")
        for headers in ({"Mcp_Method": "tools/list"}, {"Mcp_Name": "other"}, {"drop": ("Mcp-Name",)},
                        {"drop": ("Mcp-Method",)}, {"more": (("Mcp-Name", "get_status"),)},
                        {"more": (("MCP-Protocol-Version", MODERN),)}, {"Mcp_Name": "=?base64?b3RoZXI=?="}):
            self.is_refused(self.new(status, **headers), 400, HEADER_MISMATCH)
        self.is_refused(self.new(status, MCP_Protocol_Version="2030-01-01"), 400, HEADER_MISMATCH)
        encoded = base64.b64encode(b"get_status").decode()
        self.assertEqual(self.new(status, Mcp_Name=f"=?base64?{encoded}?=").status, 200)

    def test_errors_of_the_newer_era_have_a_status(self):
        self.is_refused(self.new(request(1, "no/such")), 404, UNKNOWN_METHOD)
        self.is_refused(self.new(request(1, "tools/list"), version="2030-01-01"), 400, UNSUPPORTED_VERSION)
        self.is_refused(self.new(call(1, "no_such")), 400, INVALID_PARAMS)
        self.is_refused(self.new(request(1, "resources/read", {"uri": "kuno://x"})), 400, INVALID_PARAMS)
        self.is_refused(self.post(request(1, "tools/list"), MCP_Protocol_Version="1999-01-01"), 400, INVALID_PARAMS)
        self.is_refused(self.post(request(1, "tools/list"), MCP_Protocol_Version=MODERN), 400, INVALID_PARAMS)


class Pictures(Case):
    def test_progress_makes_the_answer_a_stream(self):
        for ask in (self.old, self.new):
            message = call(7, "generate_image", {"prompt": "steps=5 ms=120"}, progressToken="t")
            heard = ask(message)
            self.assertTrue(heard.streamed)
            told = [one["params"] for one in heard.messages[:-1]]
            self.assertGreater(len(told), 2)
            self.assertEqual({one["progressToken"] for one in told}, {"t"})
            self.assertEqual((heard.last["id"], heard.last["result"]["structuredContent"]["state"]), (7, "completed"))
            heard = ask(call(8, "generate_image", {"prompt": "steps=5 ms=60"}))
            self.assertEqual((heard.streamed, len(heard.messages)), (False, 1))

    def test_the_full_picture_is_a_resource(self):
        heard = self.new(call(1, "generate_image", {"prompt": "x", "width": 3000, "height": 3000}))
        (image,) = heard.last["result"]["structuredContent"]["images"]
        whole = self.new(request(2, "resources/read", {"uri": image["uri"]})).last["result"]
        self.assertEqual((whole["resultType"], whole["ttlMs"]), ("complete", 0))
        self.assertEqual(len(base64.b64decode(whole["contents"][0]["blob"])), image["bytes"])

    def test_pictures_come_within_large_messages(self):
        self.studio.edit_by_default()
        noise = random.Random(1)
        picture = png_file(2400, 1600, 0, b"".join(b"\0" + noise.randbytes(2400) for _ in range(1600)))
        image = "data:image/png;base64," + base64.b64encode(picture).decode()
        self.assertGreater(len(image), 4 << 20)
        result = self.new(call(1, "edit_image", {"prompt": "x", "images": [image]})).last["result"]
        self.assertFalse(result["isError"], result["content"][0])

    def test_files_of_the_machine_cannot_be_named(self):
        result = self.new(call(1, "edit_image", {"prompt": "x", "images": ["/etc/hostname"]})).last["result"]
        self.assertTrue(result["content"][0]["text"].startswith("input_invalid: paths are taken"))


class Leaving(Case):
    def begin(self, connection):
        """Reads until the picture is being drawn."""
        answer, end = connection.getresponse(), time.monotonic() + PATIENCE
        for line in answer:
            self.assertLess(time.monotonic(), end)  # there is always something to read
            if line.startswith(b"data: ") and json.loads(line[6:])["params"]["progress"] > 0:
                return answer

    def idle(self):
        self.studio.wait_for("running", lambda states: not any(states))

    def test_in_the_newer_era_a_client_that_leaves_cancels(self):
        message, fields = self.modern(call(1, "generate_image", SLOW, progressToken=1))
        with self.asking(message, **fields) as connection:
            self.begin(connection).close()
        self.idle()
        self.assertEqual(self.studio.states()[0], "cancelled")

    def test_in_the_older_era_a_closed_connection_means_nothing(self):
        with self.asking(call(1, "generate_image", {"prompt": "steps=40 ms=20"}, progressToken=1),
                         MCP_Protocol_Version=LEGACY) as connection:
            self.begin(connection).close()
        self.idle()
        self.assertEqual(self.studio.states()[0], "completed")

    def test_in_the_older_era_a_notification_cancels_within_its_session(self):
        def session():
            return self.post(request(1, "initialize", HANDSHAKE)).headers["Mcp-Session-Id"]
        mine, other = session(), session()
        message = call(5, "generate_image", SLOW, progressToken=1)
        with self.asking(message, MCP_Protocol_Version=LEGACY, Mcp_Session_Id=mine) as connection:
            answer = self.begin(connection)
            enough = note("notifications/cancelled", {"requestId": 5})
            for which in ({"Mcp_Session_Id": other}, {}):
                self.assertEqual(self.old(enough, **which).status, 202)
            self.assertEqual(self.studio.states()[0], "running")
            self.assertEqual(self.old(enough, Mcp_Session_Id=mine).status, 202)
            rest = answer.read()
        self.assertNotIn(b'"id":5', rest)
        self.idle()
        self.assertEqual(self.studio.states()[0], "cancelled")

    def test_requests_beyond_the_limit_are_refused(self):
        with contextlib.ExitStack() as stack:
            job = self.old(call(1, "generate_image", {**SLOW, "wait_seconds": 0})).last["result"]["structuredContent"]
            for _ in range(64):
                message, fields = self.modern(call(1, "wait_for_job", {"job_id": job["job_id"]}, progressToken=1))
                connection = stack.enter_context(self.asking(message, **fields))
                stack.callback(self.begin(connection).close)
            result = self.new(call(2, "generate_image", {"prompt": "x"})).last["result"]
            self.assertTrue(result["isError"])
            self.assertIn("too_many_requests: 64 requests are under way", result["content"][0]["text"])
            heard = self.new(request(2, "tools/list"))
            self.assertEqual((heard.status, heard.code), (200, -32603))
        self.old(call(3, "cancel_job", {"job_id": job["job_id"]}))
        self.idle()
        self.assertEqual(self.new(call(2, "get_status")).status, 200)

    def test_a_service_that_ends_takes_no_job_along(self):
        rig = Rig()
        self.addCleanup(rig.close)
        self.studio, before = rig, self.studio
        self.addCleanup(setattr, self, "studio", before)
        with self.asking(call(1, "generate_image", {"prompt": "steps=40 ms=20"}, progressToken=1),
                         MCP_Protocol_Version=LEGACY) as connection:
            answer = self.begin(connection)
            rig.process.terminate()
            with contextlib.suppress(http.client.IncompleteRead):
                answer.read()
        self.assertEqual(rig.process.wait(PATIENCE), 0)
        rig.begin()
        self.assertEqual([job["state"] for job in rig.get("/jobs")["items"]], ["completed"])


tap.main()
