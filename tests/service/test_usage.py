"""Real use is counted by what a model is, and the counts outlive the server."""

import json

import tap
from harness import PATIENCE, Case, Server, wait_until


class Usage(Case):
    def counts(self, server, **calls):
        """Waits for these counts by model name; `unattributed` for the rest."""
        expected = {self.upstream.models[name.replace("_", ":")]: count for name, count in calls.items()
                    if name != "unattributed"}

        def right():
            usage = server.own("GET", "usage")[1]
            return ({m["digest"]: m["calls"] for m in usage["models"]} == expected and
                    usage["unattributed_calls"] == calls.get("unattributed", 0))
        wait_until(right, f"the counts {calls}")

    def test_uses(self):
        """uses_are_counted_and_aliases_share_a_counter"""
        server = self.serve()
        for path, body in (("/api/generate", {"model": "tiny", "prompt": "x"}),
                           ("/api/chat", {"model": "alias:latest", "messages": [{"role": "user", "content": "x"}]}),
                           ("/v1/embeddings", {"model": "TINY:latest", "input": ["x"]}),
                           ("/api/generate", b'{"model":"tiny","prompt":"x"} {"model":"other:7b"}'),
                           ("/v1/messages", {"model": "other:7b", "messages": [{}]})):
            self.assertEqual(server.ask("POST", path, body)[0], 200)
        self.counts(server, tiny_latest=4, other_7b=1)
        first, second = server.own("GET", "usage")[1]["models"]
        self.assertEqual((first["names"], second["names"]), (["other:7b"], ["alias:latest", "tiny:latest"]))
        self.assertTrue(first["eligible"])

    def test_no_uses(self):
        """loads_metadata_and_refused_calls_are_no_use"""
        server = self.serve()
        server.ask("POST", "/api/generate", {"model": "tiny", "prompt": "", "keep_alive": 0})
        server.ask("POST", "/api/chat", {"model": "tiny", "messages": []})
        server.ask("POST", "/api/show", {"model": "tiny", "prompt": "x"})
        server.generate("status=404")
        server.generate("status=500")
        server.ask("POST", "/api/create", {"model": "tiny", "prompt": "x"})
        self.counts(server)

    def test_unattributed(self):
        """what_is_not_certain_is_counted_without_a_name"""
        server = self.serve()
        server.generate(model="unknown-secret-name")
        server.ask("POST", "/api/generate", b'{"model":["tiny"],"prompt":"x"}')
        server.ask("POST", "/api/generate", b"\x28\xb5\x2f\xfd", headers={"Content-Encoding": "zstd"})
        server.ask("POST", "/v1/audio/transcriptions", b"--x--")
        server.ask("POST", "/api/generate", b'{"model":"other:7b","model":"tiny","prompt":"x"}')
        self.counts(server, unattributed=5)
        self.assertNotIn("secret", (server.state / "usage.json").read_text())

    def test_restart(self):
        """counts_outlive_the_server"""
        server = self.serve()
        server.generate()
        wait_until((server.state / "usage.json").exists, "the history")
        server.kill()
        again = self.serve()
        self.counts(again, tiny_latest=1)
        again.generate()
        self.assertEqual(again.stop(), 0)  # stopping waits for what was counted last
        (use,) = json.loads((again.state / "usage.json").read_text())["models"]
        self.assertEqual((use["digest"], use["calls"]), (self.upstream.models["tiny:latest"], 2))

    def test_catalogue(self):
        """a_changed_catalogue_is_read_again"""
        server = self.serve()
        server.generate()
        self.counts(server, tiny_latest=1)
        reads = self.reads()
        server.generate()
        server.generate()
        self.assertEqual(self.reads(), reads)  # one reading serves for a minute
        self.upstream.models["new:latest"] = "c" * 64
        server.ask("POST", "/api/copy", {"source": "x", "destination": "new"})
        server.generate(model="new")
        self.counts(server, tiny_latest=3, new_latest=1)
        self.upstream.models["tiny:latest"] = "d" * 64
        server.ask("POST", "/api/unknown", {})
        usage = server.own("GET", "usage")[1]["models"]
        self.assertEqual([m["eligible"] for m in usage], [True, True])  # the alias still has that content
        self.assertEqual(usage[1]["names"], ["alias:latest"])

    def reads(self):
        return sum(target == "/api/tags" for _, target, _ in self.upstream.seen)

    def test_pages(self):
        """a_long_history_is_read_in_pages"""
        server = self.serve()
        for name in ("tiny", "other:7b"):
            server.generate(model=name)
        self.counts(server, tiny_latest=1, other_7b=1)
        first = server.own("GET", "usage?limit=1")[1]
        second = server.own("GET", f"usage?limit=1&cursor={first['next_cursor']}")[1]
        self.assertEqual([page["models"][0]["names"][0] for page in (first, second)], ["other:7b", "alias:latest"])
        self.assertIsNone(second["next_cursor"])
        for query in ("limit=0", "limit=501", "limit=x", "cursor=", "limit=1&limit=1", "page=2", "limit"):
            status, problem = server.own("GET", f"usage?{query}")
            self.assertEqual((status, problem["code"]), (400, "parameter_invalid"), query)

    def test_damaged(self):
        """a_damaged_history_stops_the_start_and_is_left_alone"""
        (self.folder / "state").mkdir(0o700)
        history = self.folder / "state" / "usage.json"
        history.write_text('{"version":1,"unattr')
        server = Server(self)
        self.assertEqual(server.process.wait(PATIENCE), 2)
        self.assertIn("usage.json' cannot be read (move it away to begin a new one): line 1", server.text())
        self.assertEqual(history.read_text(), '{"version":1,"unattr')

    def test_full(self):
        """a_disk_that_refuses_is_told_and_costs_nobody_an_answer"""
        server = self.serve()
        (server.state / "usage.json").mkdir()
        self.assertEqual(server.generate()[0], 200)
        wait_until(lambda: not server.own("GET", "usage")[1]["persistence"]["healthy"], "the failure")
        self.assertEqual(server.own("GET", "usage")[1]["persistence"]["last_error"], "write_failed")
        (server.state / "usage.json").rmdir()
        server.generate()
        wait_until(lambda: server.own("GET", "usage")[1]["persistence"]["healthy"], "the recovery")
        self.counts(server, tiny_latest=2)


if __name__ == "__main__":
    tap.main()
