"""kuno check: what a config.json means, without starting anything."""

import json
import pathlib
import re

import tap
from kuno import Case

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "config-json.md"


class Checking(Case):
    def config(self, **keys):
        (self.folder / "config.json").write_text(json.dumps({"state_dir": "/var/lib/kuno", **keys}))
        return "--config", "config.json"

    def test_good(self):
        """a_configuration_is_told_in_words_and_as_json"""
        config = self.config(listen="[::]:11434", upstream="127.0.0.1:20001")
        result = self.kuno("check", *config)
        self.assertEqual((result.code, result.err), (0, ""))
        self.assertIn("config.json can be served\nlisten    [::]:11434\nupstream  127.0.0.1:20001\n",
                      result.out.decode())
        told = json.loads(self.kuno("check", *config, "--json").out)
        self.assertEqual(told["control"], "127.0.0.1:11432")
        self.assertEqual(told["workers"], [])

    def test_built_in(self):
        """without_a_file_the_built_in_settings_are_told"""
        told = json.loads(self.kuno("check", "--json").out)
        self.assertIsNone(told["config"])
        self.assertTrue(told["state_dir"].endswith("/.local/state/kuno"))

    def test_bad(self):
        """a_mistake_is_told_with_file_and_place"""
        for keys, text in (
            ({"listen": "127.0.0.1:11434"}, "listen: port 11434 is also that of upstream"),
            ({"lisen": "127.0.0.1:1"}, "unknown key 'lisen'"),
            ({"upstream": "10.0.0.1:11434"}, "upstream: 10.0.0.1:11434 is not a loopback address"),
        ):
            result = self.kuno("check", *self.config(**keys))
            self.assertEqual((result.code, result.out), (2, b""))
            self.assertRegex(result.err, "^kuno: config: 'config.json': " + re.escape(text))

    def test_absent(self):
        """a_file_that_is_named_must_be_there"""
        result = self.kuno("check", "--config", "nowhere.json")
        self.assertEqual(result.err, "kuno: config: 'nowhere.json': no such file\n")

    def test_starts_nothing(self):
        """no_file_is_written_and_no_state_made"""
        self.kuno("check", *self.config(state_dir=str(self.folder / "state")))
        self.assertFalse((self.folder / "state").exists())

    def test_documents(self):
        """the_examples_of_the_documents_can_be_served"""
        examples = re.findall(r"```json\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
        self.assertEqual(len(examples), 2)
        for example in examples:
            (self.folder / "config.json").write_text(example)
            result = self.kuno("check", "--config", "config.json")
            self.assertEqual((result.code, result.err), (0, ""))


if __name__ == "__main__":
    tap.main()
