"""kuno check: whether `kuno serve` could begin here, told without changing anything."""

import errno
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import sqlite3
import stat
import time
import unittest

import tap
from kuno import HANG_SECONDS, Case, as_nobody, wait
from ports import free_ports

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "config-json.md"
TOKEN = {"KUNO_CONTROL_TOKEN": "0123456789abcdef-control_token.0123456789"}


def everything_about(folder):
    """Names, owners, modes and contents below the folder."""
    told = {}
    for path in sorted(pathlib.Path(folder).rglob("*")):
        about = path.lstat()
        told[str(path)] = (about.st_mode, about.st_uid, about.st_mtime_ns,
                           path.read_bytes() if stat.S_ISREG(about.st_mode) else None)
    return told


# Ways to put something in a place.
def folder(path):
    path.mkdir()


def link_to(target):
    def link(path):
        path.symlink_to(target)
    return link


def text(content):
    def file(path):
        path.write_text(content)
    return file


def all_of(*things):
    def several(path):
        for put, name in things:
            put(path / name)
    return several


class Checking(Case):
    def setUp(self):
        super().setUp()
        self.ports = free_ports(5)
        self.state = self.folder / "state"
        self.models = self.folder / "models"
        self.models.mkdir()
        self.executable = self.folder / "ollama"
        self.executable.write_text("#!/bin/sh\n")
        self.executable.chmod(0o755)

    def config(self, **keys):
        usual = {"state_dir": str(self.state), "listen": f"127.0.0.1:{self.ports[0]}",
                 "upstream": f"127.0.0.1:{self.ports[1]}", "control": f"127.0.0.1:{self.ports[2]}"}
        (self.folder / "config.json").write_text(json.dumps({**usual, **keys}))
        return "--config", "config.json"

    def worker(self, number, **keys):
        return {"executable": str(self.executable), "models": str(self.models),
                "home": str(self.state / f"home{number}"), "address": f"127.0.0.1:{self.ports[3 + number]}",
                "max_loaded_models": 1, "context_length": 512,
                "device": {"backend": "vulkan", "index": number, "pci_address": f"0000:0{number}:00.0"}, **keys}

    def managed(self, *workers):
        return {"managed": {"workers": list(workers)}}

    def check(self, *args, env=None, **start):
        """It leaves everything as it is."""
        before = everything_about(self.root)
        result = self.kuno("check", *args, env=TOKEN if env is None else env, **start)
        self.assertEqual(everything_about(self.root), before)
        return result

    def passes(self, **keys):
        result = self.check(*self.config(**keys))
        self.assertEqual((result.code, result.err), (0, ""))
        return result.out.decode()

    def finds(self, *problems, env=None, **keys):
        """All of them, one a line; `kuno serve` stops at the first one."""
        args = self.config(**keys)
        for asked in (), ("--json",):
            result = self.check(*args, *asked, env=env)
            lines = result.err.splitlines()
            self.assertEqual((result.code, len(lines)), (2, len(problems)), result.err)
            for line, problem in zip(lines, problems):
                self.assertIn(f"kuno: check: {problem}", line)
            self.assertEqual(bool(result.out), bool(asked))
        told = json.loads(result.out)
        self.assertFalse(told["servable"])
        self.assertEqual([f"kuno: check: {p}" for p in told["problems"]], lines)
        served = self.kuno("serve", *args, env=TOKEN if env is None else env)
        self.assertEqual((served.code, served.err), (2, lines[0].replace("check", "serve", 1) + "\n"))

    def agree(self, problem, warnings, env=None, **keys):
        """Both refuse for the same reason, or `kuno serve` starts and `kuno check` says what will not work."""
        args = self.config(**keys)
        checked = self.check(*args, "--json", env=env)
        told = json.loads(checked.out)
        self.assertEqual((told["servable"], not checked.code), (not problem, not problem), checked.err)
        self.assertEqual(len(told["warnings"]), len(warnings), told["warnings"])
        for warning, expected in zip(told["warnings"], warnings):
            self.assertIn(expected, warning)
        if problem:
            first = checked.err.splitlines()[0]
            served = self.kuno("serve", *args, env=TOKEN if env is None else env)
            self.assertIn(f"kuno: check: {problem}", first)
            self.assertEqual((served.code, served.err), (checked.code, first.replace("check", "serve", 1) + "\n"))
        else:
            self.starts(args, "studio at" if "studio" in keys else "control at")

    def starts(self, args, last_word):
        with (self.folder / "log").open("wb") as log:
            process = self.start("serve", *args, env=TOKEN, stderr=log)
        try:
            end = time.monotonic() + HANG_SECONDS
            while last_word not in (self.folder / "log").read_text() and process.poll() is None:
                self.assertLess(time.monotonic(), end)
                time.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(wait(process)[0], 0, (self.folder / "log").read_text())
        finally:
            process.kill()

    def fresh_state(self):
        shutil.rmtree(self.state) if self.state.is_dir() and not self.state.is_symlink() else self.state.unlink()
        self.state.mkdir(0o700)

    def test_good(self):
        """a_configuration_is_told_in_words_and_as_json"""
        text = self.passes(listen=f"[::]:{self.ports[0]}")
        self.assertIn(f"config.json can be served\nlisten    [::]:{self.ports[0]}\n"
                      f"upstream  127.0.0.1:{self.ports[1]}\n", text)
        self.assertIn("token     KUNO_CONTROL_TOKEN\n", text)
        told = json.loads(self.check(*self.config(), "--json").out)
        self.assertEqual(told["control"], f"127.0.0.1:{self.ports[2]}")
        self.assertEqual((told["servable"], told["problems"], told["in_use"]), (True, [], []))
        self.assertEqual((told["workers"], told["image"]), ([], None))
        self.assertNotIn(TOKEN["KUNO_CONTROL_TOKEN"], json.dumps(told) + text)

    def test_image(self):
        """pictures_are_told_of"""
        (self.folder / "models.toml").touch()
        image = {"models": str(self.folder), "pci_address": "0000:2d:00.0", "timeout_seconds": 60,
                 "collections": ["qwen-image-2.1-int8"], "isolation": "required", "keep_warm_seconds": 5}
        self.assertIn("pictures  0000:2d:00.0\n", self.passes(image=image))
        told = json.loads(self.check(*self.config(image=image), "--json").out)["image"]
        workflows = ["qwen-image-2.1-edit/v1", "qwen-image-2.1-text-to-image/v1"]
        self.assertEqual(sorted(told.pop("workflows")), workflows)
        del image["collections"]
        self.assertEqual(told, image)
        told = json.loads(self.check(*self.config(image={}), "--json").out)["image"]
        self.assertEqual((told["models"], told["pci_address"], told["isolation"]), (None, None, "best-effort"))

    def test_built_in(self):
        """without_a_file_the_built_in_settings_are_told_and_no_token_is_needed"""
        result = self.check("--json", env={})
        told = json.loads(result.out)
        self.assertIsNone(told["config"])
        self.assertTrue(told["state_dir"].endswith("/.local/state/kuno"))
        self.assertEqual(told["token"], told["state_dir"] + "/control-token")

    def test_bad(self):
        """a_mistake_is_told_with_file_and_place"""
        for keys, text in (
            ({"listen": f"127.0.0.1:{self.ports[1]}"}, f"listen: port {self.ports[1]} is also that of upstream"),
            ({"lisen": "127.0.0.1:1"}, "unknown key 'lisen'"),
            ({"upstream": "10.0.0.1:11434"}, "upstream: 10.0.0.1:11434 is not a loopback address"),
            ({"queue_limit": 1.5}, "queue_limit: a whole number from 0 to 4096 is expected"),
            ({"state_dir": "/s\0"}, "state_dir: line 1, column "),
            *(({"studio": {"mirror": mirror}}, f"studio.mirror: '{mirror}' is not like https://models.example.org")
              for mirror in ("https://", "http://", "https:///models", "https://:80", "https://?", "ftp://a.org")),
            ({"state_dir": "state"}, "state_dir: 'state' is not an absolute path"),
            ({"state_dir": f"{self.folder}/../state"}, f"state_dir: '{self.folder}/../state' has a part '.' or '..'"),
            (self.managed(self.worker(0), self.worker(1, home=str(self.state / "home0" / "x"))),
             "managed.workers[1].home: lies in that of workers[0]"),
        ):
            result = self.check(*self.config(**keys))
            self.assertEqual((result.code, result.out), (2, b""))
            self.assertRegex(result.err, "^kuno: config: 'config.json': " + re.escape(text))
            served = self.kuno("serve", "--config", "config.json", env=TOKEN)
            self.assertEqual((served.code, served.err), (result.code, result.err))

    def test_absent(self):
        """a_file_that_is_named_must_be_there"""
        result = self.check("--config", "nowhere.json")
        self.assertEqual(result.err, "kuno: config: 'nowhere.json': no such file\n")

    def test_state(self):
        """a_state_directory_that_cannot_be_used_is_found"""
        self.passes()
        self.state.touch()
        self.finds(f"state_dir: '{self.state}': is not a folder")
        self.finds(f"state_dir: '{self.state}/a/b': cannot be made: '{self.state}' is not a folder",
                   state_dir=f"{self.state}/a/b")
        link_to("/")(self.folder / "top")
        for top in "/", str(self.folder / "top"):
            self.finds(f"state_dir: '{top}': is the root of all folders", state_dir=top)
        self.state.unlink()
        self.state.mkdir()
        self.passes()
        for mode in 0o770, 0o707:
            self.state.chmod(mode)
            self.finds(f"state_dir: '{self.state}': its mode {mode:04o} lets others write; set it to 0700")
        self.state.chmod(0o700)
        (self.state / "studio").mkdir(0o777)
        (self.state / "studio").chmod(0o777)
        self.passes()
        self.finds(f"studio: '{self.state}/studio': its mode 0777 lets others write",
                   studio={"listen": f"127.0.0.1:{self.ports[3]}"})
        (self.state / "usage.json").write_text("{}")
        self.finds("state_dir: the history of use ")

    def test_odd_state(self):
        """of_whatever_lies_in_the_state_directory_check_says_what_serve_makes_of_it"""
        state, recovery = self.state, "a request was under way when kuno ended; to recover, stop kuno and"
        boot = "11111111-2222-3333-4444-555555555555\n"
        state.mkdir(0o700)
        for put, name, problem, *warnings in (
            (folder, "boot-id", "'boot-id': is a folder"),
            (os.mkfifo, "boot-id", "'boot-id': is not a regular file"),
            (link_to("/"), "boot-id", "'boot-id': is a folder"),
            (link_to("nowhere"), "boot-id", None),
            (text("of another form"), "boot-id", None),
            (folder, "instance.lock", "'instance.lock' cannot be written: Is a directory"),
            (link_to("nowhere"), "instance.lock", "'instance.lock' cannot be written: Too many levels"),
            (text(""), "instance.lock", None),
            (folder, "usage.json", "the history of use "),
            (os.mkfifo, "usage.json", "the history of use "),
            (text("{}"), "usage.json", "the history of use "),
            (link_to("nowhere"), "usage.json", None),
            (text(""), "upstream-in-flight", None, recovery),
            (folder, "upstream-in-flight", None, recovery),
            (link_to("nowhere"), "upstream-in-flight", None, recovery),
            (text(""), "reserved-cpu-1", None, recovery),
            (all_of((text(boot), "boot-id"), (text(""), "upstream-in-flight")), "", None),
            (all_of((text(boot), "boot-id"), (text("x"), "upstream-in-flight")), "", None, recovery),
            (all_of((folder, "boot-id"), (text(""), "upstream-in-flight")), "", None, recovery),
            (folder, "control-token", None),  # the token is in the environment
        ):
            with self.subTest(name, put=put.__name__, problem=problem):
                self.fresh_state()
                put(state / name)
                place = f"state_dir: {'' if name == 'usage.json' else repr(str(state)) + ': '}"
                self.agree(problem and place + problem, warnings)

    def test_odd_studio(self):
        """of_what_lies_in_the_studios_folder_too"""
        place = self.state / "studio"
        for name, words in (("later.db", ("PRAGMA application_id = 0x6b756e6f", "PRAGMA user_version = 99")),
                            ("notes.db", ("PRAGMA user_version = 4", "CREATE TABLE notes (text)"))):
            database = sqlite3.connect(self.folder / name)
            with database:
                for one in words:
                    database.execute(one)
            database.close()
        notes = (self.folder / "notes.db").read_bytes()
        self.state.mkdir(0o700)
        for put, name, problem in (
            (text(""), "", "is not a folder"),
            (link_to("nowhere"), "", f"cannot be made: the link '{place}' leads nowhere"),
            (text(""), "gallery", "'gallery' is not a folder"),
            (link_to("nowhere"), "inputs", "'inputs' cannot be used: No such file"),
            (link_to("/dev/null"), "results", "'results' is not a folder"),
            (folder, "studio.db", "'studio.db' cannot be used: Is a directory"),
            (os.mkfifo, "studio.db", "'studio.db' is not a regular file"),
            (link_to(self.folder / "later.db"), "studio.db", "the database is of a later version of kuno (99, "),
            (link_to(self.folder / "notes.db"), "studio.db", "'studio.db' is another program's database, not the "
             "studio's; move it elsewhere, or take another state_dir"),
            (folder, "studio.db-wal", "'studio.db-wal' cannot be used: Is a directory"),
            (link_to("nowhere"), "studio.db-shm", "'studio.db-shm' cannot be used: Too many levels"),
            (folder, "studio.db-journal", "'studio.db-journal' cannot be used: Is a directory"),
            (text("no database"), "studio.db", None),
            (text(""), "studio.db", None),
            (folder, "thumbnails", None),
        ):
            with self.subTest(name, put=put.__name__, problem=problem):
                self.fresh_state()
                if name:
                    place.mkdir(0o700)
                put(place / name)
                self.agree(problem and f"studio: '{place}': {problem}", [],
                           studio={"listen": f"127.0.0.1:{self.ports[3]}"})
        self.assertEqual((self.folder / "notes.db").read_bytes(), notes)

    def test_odd_place(self):
        """and_of_where_it_is"""
        link, nowhere = self.folder / "link", f"leads nowhere: {os.strerror(errno.ENOENT)}"
        link.symlink_to("nowhere")
        (self.folder / "round").symlink_to("round")
        (self.folder / "here").symlink_to(self.models)
        self.models.chmod(0o700)
        for path, problem in ((link, f"cannot be made: the link '{link}' {nowhere}"),
                              (link / "a" / "b", f"cannot be made: the link '{link}' {nowhere}"),
                              (self.folder / "round", "cannot be looked at: Too many levels"),
                              ("/proc/kuno", "cannot be made in '/proc': "),
                              ("/sys/kuno", "cannot be made in '/sys': "),
                              (self.folder / "here", None), (self.folder / "here" / "a" / "b", None)):
            with self.subTest(path):
                self.agree(problem and f"state_dir: '{path}': {problem}", [], state_dir=str(path))

    def test_odd_home(self):
        """without_a_file_both_refuse_a_home_that_takes_no_state_and_a_token_that_cannot_be_read"""
        token = self.home / ".local/state/kuno/control-token"
        token.parent.mkdir(parents=True, mode=0o700)
        for put, env, problem in ((None, {"HOME": "/proc"}, "state_dir: '/proc/.local/state/kuno': cannot be made in "),
                                  (None, {"HOME": "nowhere"}, ""),
                                  (folder, {}, f"control token: '{token}': is not a regular file"),
                                  (link_to("nowhere"), {}, f"control token: '{token}': cannot be opened: No such ")):
            with self.subTest(problem):
                if put:
                    put(token)
                checked, served = self.check(env=env), self.kuno("serve", env=env)
                self.assertEqual((served.code, served.err.replace("serve", "check", 1)), (checked.code, checked.err))
                self.assertEqual(checked.code, 2)
                self.assertIn(problem, checked.err)
                if put:
                    token.rmdir() if token.is_dir() else token.unlink()

    def test_odd_workers(self):
        """and_programs_that_cannot_begin_and_homes_that_are_not_to_be_had"""
        self.state.mkdir(0o700)
        (self.state / "home").symlink_to("nowhere")
        for path, start in (("words", "not a program\n"), ("empty", ""), ("script", "#! /no/shell -e\n")):
            (self.folder / path).write_text(start)
            (self.folder / path).chmod(0o755)
        for key, path, problem in (
            ("executable", self.folder / "words", "cannot be executed: it is neither a program nor a script with '#!'"),
            ("executable", self.folder / "empty", "cannot be executed: it is neither"),
            ("executable", self.folder / "script", "cannot be executed: its interpreter '/no/shell': No such file"),
            ("home", self.state / "home", f"cannot be made: the link '{self.state}/home' leads nowhere"),
            ("home", self.state / "boot-id", "in state_dir that name is kuno's own"),
            ("home", self.state / "reserved-x" / "a", "in state_dir that name is kuno's own"),
        ):
            self.agree(f"managed.workers[0].{key}: '{path}': {problem}", [],
                       **self.managed(self.worker(0, **{key: str(path)})))

    def test_warnings(self):
        """what_will_not_work_is_told_although_serve_starts"""
        toml = self.folder / "models.toml"
        toml.write_text("[broken\n")
        listen = f"127.0.0.1:{self.ports[3]}"
        broken = f"{toml}: line 1: "
        self.agree(None, [f"studio.models: {broken}", f"image.models: {broken}"],
                   studio={"listen": listen, "models": str(toml)}, image={"models": str(self.folder)})
        own = self.home / ".config/kuno/models.toml"
        own.parent.mkdir(parents=True)
        own.write_text("[broken\n")
        self.agree(None, [f"studio.models: {own}: line 1: "], studio={"listen": listen}, image={})
        self.agree(None, [f"image.models: {own}: line 1: "], image={})
        self.agree(None, [])
        text = self.passes(image={})
        self.assertIn(f"\nwarning   image.models: {own}: line 1: ", text)
        own.unlink()
        for mirror, words in (("http://models.example.org", "is not followed: it must be https"),
                              ("https://me@models.example.org", "an address with a user's name in it is not followed"),
                              ("https://models.example.org/?a", "the address of a mirror has no '?' and no '#'"),
                              ("https://exa mple.org", "is no address like https://models.example.org")):
            studio = {"listen": listen, "mirror": mirror}
            self.agree(None, [words], studio=studio)
            self.agree(None, [], studio={**studio, "offline": True})
        self.agree(None, [], studio={"listen": listen, "mirror": "https://models.example.org/a"})

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to give a folder away")
    def test_strangers(self):
        """folders_of_other_users_are_found"""
        home = self.folder / "home0"
        for folder in self.state, home:
            folder.mkdir()
            os.chown(folder, 12345, 12345)
        self.finds(f"state_dir: '{self.state}': belongs to another user",
                   f"managed.workers[0].home: '{home}': belongs to another user",
                   **self.managed(self.worker(0, home=str(home))))

    def test_rights(self):
        """so_is_what_this_user_may_not_use"""
        self.folder.chmod(0o755)
        self.models.chmod(0)
        self.executable.chmod(0o644)
        start = as_nobody(self)
        args = self.config(**self.managed(self.worker(0)))
        (self.folder / "config.json").chmod(0o644)
        if os.geteuid() != 0:
            self.folder.chmod(0o555)
        result = self.check(*args, **start)
        self.folder.chmod(0o755)
        self.models.chmod(0o755)
        self.assertEqual(result.code, 2)
        for text in (f"state_dir: '{self.state}': cannot be made in '{self.folder}': Permission denied",
                     f"managed.workers[0].executable: '{self.executable}': cannot be executed: Permission denied",
                     f"managed.workers[0].models: '{self.models}': cannot be read: Permission denied"):
            self.assertIn(f"kuno: check: {text}\n", result.err)

    def test_workers(self):
        """workers_need_a_program_models_and_a_home"""
        self.passes(**self.managed(self.worker(0), self.worker(1)))
        home = self.folder / "home"
        one = self.worker(0, executable=f"{self.folder}/olama", models=f"{self.folder}/modles", home=str(home))
        self.finds(f"managed.workers[0].executable: '{self.folder}/olama': does not exist",
                   f"managed.workers[0].models: '{self.folder}/modles': does not exist",
                   f"managed.workers[0].home: '{home}': does not exist; make it, or use a folder in state_dir",
                   **self.managed(one))
        self.assertFalse((self.folder / "modles").exists())
        home.touch()
        self.finds(f"managed.workers[0].executable: '{self.models}': is not a program",
                   f"managed.workers[0].models: '{self.executable}': is not a folder",
                   f"managed.workers[0].home: '{home}': is not a folder",
                   **self.managed(self.worker(0, executable=str(self.models), models=str(self.executable),
                                              home=str(home))))
        self.executable.chmod(0o644)
        home.unlink()
        home.mkdir()
        home.chmod(0o777)
        self.finds(f"managed.workers[0].executable: '{self.executable}': cannot be executed: Permission denied",
                   f"managed.workers[0].home: '{home}': its mode 0777 lets others write; set it to 0700",
                   **self.managed(self.worker(0, home=str(home))))

    def test_homes(self):
        """two_names_of_one_home_are_not_taken_for_two"""
        homes = self.folder / "homes"
        for name in "0", "1":
            (homes / name).mkdir(parents=True)
        (self.folder / "link").symlink_to(homes / "0")
        (homes / "1" / "inside").mkdir()
        (self.folder / "deep").symlink_to(homes / "1" / "inside")
        for first, second, words in ((homes / "0", self.folder / "link", "is also that of"),
                                     (homes / "1", self.folder / "deep", "lies in that of"),
                                     (self.folder / "deep", homes / "1", "holds that of")):
            self.finds(f"managed.workers[1].home: '{second}': {words} workers[0]",
                       **self.managed(self.worker(0, home=str(first)), self.worker(1, home=str(second))))
        self.state.symlink_to(homes / "0")
        self.finds(f"managed.workers[0].home: '{homes}/0': state_dir is in it; a folder in state_dir would do",
                   **self.managed(self.worker(0, home=str(homes / "0"))))

    def test_models(self):
        """files_of_models_that_are_named_must_be_there"""
        place = self.folder / "models.toml"
        studio = {"listen": f"127.0.0.1:{self.ports[3]}", "models": str(place)}
        self.finds(f"studio.models: '{place}': does not exist", f"image.models: '{place}': does not exist",
                   image={"models": str(self.folder)}, studio=studio)
        place.touch()
        self.passes(image={"models": str(self.folder)}, studio=studio)
        self.finds(f"studio.models: '{self.folder}': is not a regular file",
                   studio={**studio, "models": str(self.folder)})

    def test_token(self):
        """a_control_token_that_cannot_be_used_is_found"""
        path = self.folder / "token"
        by_file = {"KUNO_CONTROL_TOKEN_FILE": str(path)}
        path.write_text(TOKEN["KUNO_CONTROL_TOKEN"] + "\n")
        path.chmod(0o600)
        self.assertEqual(self.check(*self.config(), env=by_file).code, 0)
        self.finds("control token: there is none; set KUNO_CONTROL_TOKEN or", env={})
        self.finds("control token: KUNO_CONTROL_TOKEN and KUNO_CONTROL_TOKEN_FILE are both set; keep one",
                   env={**TOKEN, **by_file})
        self.finds("control token: KUNO_CONTROL_TOKEN: has 5 characters, 32 to 256 are needed",
                   env={"KUNO_CONTROL_TOKEN": "short"})
        self.finds("control token: KUNO_CONTROL_TOKEN: has other characters than",
                   env={"KUNO_CONTROL_TOKEN": 40 * " "})
        path.chmod(0o644)
        self.finds("control token: the file of KUNO_CONTROL_TOKEN_FILE: its mode 0644 lets others in", env=by_file)
        path.unlink()
        self.finds("control token: the file of KUNO_CONTROL_TOKEN_FILE: cannot be opened: No such file", env=by_file)

    def test_own_token(self):
        """so_is_one_that_kuno_has_made_and_somebody_has_changed"""
        token = self.home / ".local/state/kuno/control-token"
        token.parent.mkdir(parents=True, mode=0o700)
        token.write_text("short\n")
        token.chmod(0o600)
        result = self.check(env={})
        self.assertEqual(result.code, 2)
        self.assertIn(f"kuno: check: control token: '{token}': has 5 characters", result.err)

    def test_addresses(self):
        """addresses_that_this_machine_does_not_have_are_found_and_those_in_use_are_told"""
        result = self.check(*self.config(listen=f"192.0.2.1:{self.ports[0]}"))
        self.assertEqual(result.err, f"kuno: check: listen: 192.0.2.1:{self.ports[0]} cannot be listened on: "
                                     "Cannot assign requested address\n")
        with socket.create_server(("127.0.0.1", self.ports[2])):
            self.state.mkdir(0o700)
            with (self.state / "instance.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                text = self.passes()
                told = json.loads(self.check(*self.config(), "--json").out)
        busy = [f"control: 127.0.0.1:{self.ports[2]} is in use", f"state_dir: '{self.state}' is in use by another kuno"]
        self.assertIn("".join(f"now       {line}\n" for line in busy), text)
        self.assertEqual((told["servable"], told["in_use"]), (True, busy))

    def test_documents(self):
        """the_examples_of_the_documents_are_understood"""
        examples = re.findall(r"```json\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
        self.assertEqual(len(examples), 2)
        for example in examples:
            (self.folder / "config.json").write_text(example)
            told = json.loads(self.check("--config", "config.json", "--json").out)
            self.assertEqual(told["state_dir"], "/var/lib/kuno")
            for problem in told["problems"]:  # this machine need not have what they name
                self.assertRegex(problem, r": (cannot be made in |does not exist|belongs to another user)")


if __name__ == "__main__":
    tap.main()
