"""The official clients of MCP draw through the studio, over both ways and in both eras. scripts/install-clients brings
them."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import tap
from studio.rig import PATIENCE, TOKEN
from talk import LEGACY, MODERN, PROGRAM, Studio

PROGRAMS = pathlib.Path(__file__).parents[1] / "clients"
PACKAGES = pathlib.Path(os.environ["KUNO_CLIENTS"])
TOOLS = ["get_status", "list_models", "plan_image", "generate_image", "edit_image", "upscale_image", "get_job",
         "wait_for_job", "cancel_job", "list_gallery", "get_image"]
DRAWN = [["text", "image", "resource_link"], "7", True, True]
INVALID_PARAMS = -32602


class Clients(unittest.TestCase):
    maxDiff = 3000

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="kuno-clients-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        shutil.copytree(PROGRAMS, cls.folder / "programs")
        # JavaScript looks for packages beside the program.
        (cls.folder / "programs" / "node_modules").symlink_to(PACKAGES / "javascript" / "node_modules")
        cls.studio = Studio()
        cls.addClassCleanup(cls.studio.close)
        # Clients hand on no other variables than HOME, PATH and the like.
        cls.server = cls.folder / "server"
        cls.server.write_text(f"#!/bin/sh\n{''.join(f'export {name}={os.environ[name]!r}; ' for name in cls.watched())}"
                              f"exec '{os.path.abspath(PROGRAM)}' mcp --config '{cls.studio.config}'\n")
        cls.server.chmod(0o755)

    @staticmethod
    def watched():
        return [name for name in os.environ if name.endswith("SAN_OPTIONS")]

    def steps(self, language, interpreter, *arguments):
        if not (PACKAGES / f"{language}.installed").exists():
            self.skipTest(f"the clients for {language} are not there; scripts/install-clients brings them")
        ended = subprocess.run(
            [interpreter, self.folder / "programs" / arguments[0], *arguments[1:]], capture_output=True, text=True,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "NO_PROXY": "*", "TOKEN": TOKEN},
            timeout=3 * PATIENCE)
        self.assertEqual(ended.returncode, 0, ended.stdout[-500:] + ended.stderr[-2000:])
        self.studio.wait_for("running", lambda states: not any(states))
        return [json.loads(line) for line in ended.stdout.splitlines()]

    def targets(self):
        return f"http://127.0.0.1:{self.studio.port}/mcp", str(self.server)

    def test_python(self):
        """mcp_for_python_draws_fails_and_leaves_in_every_mode"""
        for target in self.targets():
            for mode, version in (("auto", MODERN), ("legacy", LEGACY), (MODERN, MODERN)):
                with self.subTest(target=target, mode=mode):
                    told = self.steps("python", PACKAGES / "python" / "bin" / "python", "mcp_client.py", mode, target)
                    self.assertEqual(told, [
                        ["version", version],
                        ["tools", TOOLS],
                        ["status", "demo"],
                        ["draw", DRAWN],
                        ["fail", [True, "not_found"]],
                        ["refuse", INVALID_PARAMS],
                        ["refuse", True],
                        ["leave", [False, False, False]],
                    ])

    def javascript(self, line, mode):
        for target in self.targets():
            with self.subTest(target=target, mode=mode):
                told = self.steps("javascript", shutil.which("node"), "mcp_client.mjs", line, mode, target)
                self.assertEqual(told, [
                    ["server", "kuno"],
                    ["tools", len(TOOLS)],
                    ["status", "demo"],
                    ["draw", DRAWN],
                    ["fail", True],
                    ["refuse", INVALID_PARAMS],
                    ["leave", ["left", False]],
                ])

    def test_javascript(self):
        """mcp_for_javascript_draws_fails_and_leaves_in_every_mode"""
        for mode in ("auto", "legacy", MODERN):
            self.javascript("v2", mode)

    def test_older_javascript(self):
        """mcp_for_javascript_of_the_line_before_works_too"""
        self.javascript("v1", "legacy")

    def inspector(self, *arguments):
        if not (PACKAGES / "javascript.installed").exists():
            self.skipTest("the clients for javascript are not there; scripts/install-clients brings them")
        folder = PACKAGES / "javascript/node_modules/@modelcontextprotocol/inspector-cli/build"
        # It looks for its own name in ../package.json of the folder that it is started in.
        return subprocess.run([shutil.which("node"), folder / "index.js", *arguments], capture_output=True, text=True,
                              env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "NO_PROXY": "*"}, cwd=folder,
                              timeout=3 * PATIENCE)

    def test_inspector(self):
        """the_command_line_of_the_inspector_speaks_to_both_ways"""
        http, stdio = self.targets()
        token = ("--transport", "http", "--header", f"Authorization: Bearer {TOKEN}")
        for name, target in (("stdio", (stdio,)), ("http", (http, *token))):
            def ask(*arguments, target=target):
                ended = self.inspector(*target, *arguments)
                self.assertEqual(ended.returncode, 0, ended.stderr[-2000:])
                return json.loads(ended.stdout)
            with self.subTest(name):
                self.assertEqual([tool["name"] for tool in ask("--method", "tools/list")["tools"]], TOOLS)
                status = ask("--method", "tools/call", "--tool-name", "get_status")
                self.assertEqual(status["structuredContent"]["model"], "demo")
                drawn = ask("--method", "tools/call", "--tool-name", "generate_image", "--tool-arg", "prompt=a boat",
                            "seed=\"7\"")
                self.assertEqual([block["type"] for block in drawn["content"]], DRAWN[0])
                self.assertIn("resources", ask("--method", "resources/list"))
        refused = self.inspector(http, "--transport", "http", "--method", "tools/list")
        self.assertNotEqual(refused.returncode, 0)


tap.main()
