"""Where results go: whole or not at all, under the very name that was asked for, and nowhere else."""

import json
import os
import subprocess
import unittest

import tap
from kuno import E2E, SANITIZED, TINY_PICTURE, Case, add_cases, as_nobody, everything_in, needs_namespaces
from png import Picture

REQUEST = ["a boat", *TINY_PICTURE]


class Place(Case):
    def refuses_output(self, output, *says, **start):
        return self.refuses(["generate", *REQUEST, "--output", str(output)], *says, **start)

    def picture(self, name="output.png"):
        return Picture((self.folder / os.fsdecode(name)).read_bytes())

    def test_missing_folder(self):
        """refuses_an_output_whose_folder_is_missing"""
        self.refuses_output("absent/boat.png", "'absent/boat.png': its folder does not exist; make it first")

    def test_folder(self):
        """refuses_a_folder_as_output"""
        (self.folder / "boat.png").mkdir()
        self.refuses_output("boat.png", "'boat.png': is a folder, a file name is needed")

    def test_slash(self):
        """refuses_an_output_that_ends_in_a_slash"""
        self.refuses_output("boat/", "'boat/': has no file name at its end")

    def test_device(self):
        """refuses_to_replace_a_device"""
        os.mkfifo(self.folder / "pipe")
        self.refuses_output("pipe", "'pipe': is not a regular file")

    def test_file_as_folder(self):
        """refuses_an_output_below_a_file"""
        (self.folder / "file").write_text("")
        self.refuses_output("file/boat.png", "Not a directory")

    def test_unwritable(self):
        """refuses_an_output_in_a_folder_that_may_not_be_written"""
        self.folder.chmod(0o555)
        self.refuses(["generate", "a boat", "--output", "boat.png"],  # the built-in model: nothing else is read
                     "'boat.png': cannot be written: Permission denied", **as_nobody(self))

    def test_long_name(self):
        """says_plainly_that_a_name_is_too_long"""
        self.refuses_output("a" * 256, "file name too long: 256 bytes, at most 255 are allowed")

    def test_long_path(self):
        """refuses_a_path_of_a_hundred_thousand_letters"""
        self.refuses_output("a" * 100_000)

    def test_terminal_name(self):
        """writes_no_escapes_of_a_name_into_its_messages"""
        result = self.refuses_output("absent/\x1b[31mred\nboat.png", r"'absent/\x1b[31mred\x0aboat.png'")
        self.assertNotIn("\x1b", result.err)

    def test_replaces(self):
        """replaces_an_existing_file"""
        (self.folder / "output.png").write_text("something else")
        self.draws(*REQUEST)
        self.assertEqual(self.picture().width, 32)
        self.assertEqual(everything_in(self.folder), ["output.png"])

    def test_keeps_mode(self):
        """makes_files_that_follow_the_umask"""
        self.draws(*REQUEST, umask=0o027)
        self.assertEqual((self.folder / "output.png").stat().st_mode & 0o777, 0o640)

    def test_no_clobber(self):
        """refuses_to_replace_a_file_with_no_clobber_and_leaves_it_untouched"""
        path = self.folder / "output.png"
        path.write_text("something else")
        before = path.stat()
        self.refuses(["generate", *REQUEST, "--no-clobber"], "'output.png': exists already")
        self.assertEqual(path.read_text(), "something else")
        self.assertEqual((path.stat().st_ino, path.stat().st_mtime_ns), (before.st_ino, before.st_mtime_ns))

    def test_no_clobber_new(self):
        """makes_a_new_file_with_no_clobber"""
        self.draws(*REQUEST, "--no-clobber")
        self.assertEqual(self.picture().width, 32)

    def test_no_clobber_count(self):
        """refuses_all_of_several_pictures_when_one_of_them_is_there"""
        (self.folder / "output-3.png").write_text("something else")
        self.refuses(["generate", *REQUEST, "--no-clobber", "--count", "3"], "'output-3.png': exists already")

    def test_link(self):
        """replaces_a_link_and_not_what_it_leads_to"""
        (self.inputs / "elsewhere").write_text("something else")
        (self.folder / "output.png").symlink_to(self.inputs / "elsewhere")
        self.draws(*REQUEST)
        self.assertEqual((self.inputs / "elsewhere").read_text(), "something else")
        self.assertFalse((self.folder / "output.png").is_symlink())
        self.assertEqual(self.picture().width, 32)

    def test_stdout(self):
        """writes_nothing_but_the_picture_to_standard_output"""
        result = self.draws(*REQUEST, "--output", "-")
        picture = Picture(result.out)
        self.assertEqual((picture.width, picture.height), (32, 32))
        self.assertEqual(everything_in(self.folder), [])

    def test_same(self):
        """writes_the_same_bytes_to_standard_output_and_to_a_file"""
        self.draws(*REQUEST)
        self.assertEqual(self.draws(*REQUEST, "--output", "-").out, (self.folder / "output.png").read_bytes())

    def test_stdout_json(self):
        """refuses_to_mix_the_picture_and_json_on_standard_output"""
        self.refuses(["generate", *REQUEST, "--output", "-", "--json"], "both want standard output")

    def test_stdout_count(self):
        """refuses_several_pictures_on_standard_output"""
        self.refuses(["generate", *REQUEST, "--output", "-", "--count", "2"], "standard output takes one picture")

    def test_formats(self):
        """writes_the_format_that_the_ending_says_with_the_recipe_in_it"""
        comment = b"UNICODE\0" + "a boat\nSteps".encode("utf-16-be")
        for name, start in (("boat.jpg", b"\xff\xd8\xff"), ("boat.JPEG", b"\xff\xd8\xff"), ("boat.webp", b"RIFF")):
            self.kuno("generate", *REQUEST, "--output", name)
            file = (self.folder / name).read_bytes()
            self.assertEqual((file[:len(start)], file.count(comment)), (start, 1))
            self.kuno("generate", *REQUEST, "--output", name, "--no-metadata")
            self.assertNotIn(b"Exif", (self.folder / name).read_bytes())
        self.refuses_output("boat.avif", "'boat.avif': pictures are written as PNG, JPEG and WebP")
        long = ["generate", "boat " * 7000, *TINY_PICTURE, "--output", "long.jpg"]
        self.refuses(long, "'long.jpg': prompt and settings are too long for the notes of a JPEG file")

    def test_dump_missing(self):
        """refuses_a_dump_into_a_folder_that_is_missing"""
        self.refuses(["generate", *REQUEST, "--dump", "absent"], "--dump: 'absent' is not a folder; make it first")

    def test_line(self):
        """tells_the_file_and_its_seed_in_one_line"""
        self.assertEqual(self.draws(*REQUEST).out, b"output.png: seed 1\n")

    def test_quiet(self):
        """says_nothing_at_all_when_quiet"""
        result = self.draws(*REQUEST, "--quiet")
        self.assertEqual((result.out, result.err), (b"", ""))

    def test_tidy(self):
        """leaves_nothing_but_the_picture"""
        self.draws(*REQUEST, "--output", "boat.png")
        self.assertEqual(everything_in(self.root), ["folder", "folder/boat.png", "home", "inputs"])


# Names that have broken other programs: each is made as it is, and told in one line without control characters.
NAMES = {
    "spaces": "space name (1).png", "accents_and_other_scripts": "café 海.png", "emoji": "emoji 🚀.png",
    "a_dash_in_front": "-rf.png", "two_dashes_in_front": "--seed=4.png", "a_newline": "new\nline.png",
    "escapes_of_terminals": "\x1b[31mred\x1b[0m.png", "percent_signs": "%s%n%d%%.png",
    "an_escaped_slash": "..%2fup.png", "a_dot_in_front": ".hidden.png", "a_device_of_another_system": "CON.png",
    "no_ending": "picture", "255_bytes": "a" * 251 + ".png", "a_backslash": "a\\b.png", "quotes": "it's \"it\".png",
    "bytes_that_are_no_text": b"latin-\xe9.png",
}


class Name(Case):
    def makes(self, name):
        result = self.draws(*REQUEST, "--output", name)
        self.assertEqual(os.listdir(os.fsencode(self.folder)), [os.fsencode(name)])
        Picture((self.folder / os.fsdecode(name)).read_bytes())
        line = result.out.decode()
        self.assertEqual(line.count("\n"), 1)
        self.assertTrue(line[:-1].isprintable(), ascii(line))
        listed = json.loads(self.draws(*REQUEST, "--json", "--output", name).out)["images"][0]["file"]
        if isinstance(name, str):
            self.assertEqual(listed, name)


def makes(name):
    return lambda self: self.makes(name)


add_cases(Name, [(f"makes_a_file_whose_name_has_{what}", makes(name)) for what, name in NAMES.items()])


def reads(self):
    for name in map(os.fsencode, NAMES.values()):
        path = os.fsencode(self.inputs) + b"/" + name
        os.symlink(E2E / "vae.safetensors", path)
        self.draws(*REQUEST, "--vae", path)


def takes_operand(self):
    self.draws("--output", "boat.png", *TINY_PICTURE, "--", "-a boat")
    self.assertEqual(Picture((self.folder / "boat.png").read_bytes()).texts["parameters"].split("\n")[0], "-a boat")


add_cases(Name, [("reads_a_model_file_of_any_such_name", reads),
                 ("takes_what_follows_two_dashes_as_a_prompt", takes_operand)])


class Device(Case):
    def test_null(self):
        """writes_to_a_device_as_it_is"""
        result = self.kuno("generate", *REQUEST, "--output", "/dev/null")
        self.assertEqual((result.code, everything_in(self.folder)), (0, []), result.err)
        result = self.kuno("generate", *REQUEST, "--output", "/dev/full")
        self.assertEqual(result.code, 2, result.err)
        self.assertIn("'/dev/full': cannot be written", result.err)

    def test_file_size_limit(self):
        """a_limit_on_the_size_of_files_is_an_error_and_leaves_nothing"""
        result = self.kuno("generate", *REQUEST, before=["sh", "-c", 'ulimit -f 0; exec "$@"', "sh"])
        self.assertEqual((result.code, everything_in(self.folder)), (2, []), result.err)

    def test_count_size_limit(self):
        """says_why_a_picture_could_not_be_saved_while_the_next_one_was_drawn"""
        result = self.kuno("generate", *REQUEST, "--count", "3", "--quiet",
                           before=["sh", "-c", 'ulimit -f 1; exec "$@"', "sh"])
        self.assertEqual((result.code, everything_in(self.folder)), (2, []), result.err)
        self.assertRegex(result.err, r"\Akuno: 'output-1.png': cannot be written: File too large\n\Z")

    @unittest.skipIf(SANITIZED, "sanitizers reserve terabytes of addresses")
    def test_address_space(self):
        """draws_with_an_address_space_of_one_gigabyte"""
        result = self.kuno("generate", *REQUEST, before=["sh", "-c", 'ulimit -v 1000000; exec "$@"', "sh"])
        self.assertEqual((result.code, everything_in(self.folder)), (0, ["output.png"]), result.err)


class Stream(Case):
    """Standard output that cannot take what is written."""

    def fails(self, args, stdout, *says, left=()):
        if stdout == "closed":
            command = ["sh", "-c", 'exec "$@" >&-', "sh"]
            result = self.kuno(*args, before=command)
        else:
            with open("/dev/full", "wb") as full:
                result = self.kuno(*args, stdout=full)
        self.assertEqual(result.code, 2, result.err)
        for words in says:
            self.assertIn(words, result.err)
        self.assertEqual(everything_in(self.folder), sorted(left))

    def test_all_closed(self):
        """writes_no_message_into_the_picture_when_all_standard_streams_are_closed"""
        command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"]
        result = self.kuno("generate", *REQUEST, before=command)
        self.assertGreater(result.code, 0)
        self.assertEqual(everything_in(self.folder), ["output.png"])
        self.assertEqual(Picture((self.folder / "output.png").read_bytes()).width, 32)

    def test_reader_gone(self):
        """ends_with_a_message_when_the_reader_of_the_picture_has_gone"""
        read, write = os.pipe()
        os.close(read)
        result = self.kuno("generate", *REQUEST, "--output", "-", stdout=write)
        os.close(write)
        self.assertEqual(result.code, 2, result.err)
        self.assertIn("Broken pipe", result.err)


ANSWERS = {"version": (["--version"], []), "help_of_generate": (["generate", "--help"], []),
           "inspection": (["inspect-models"], []), "inspection_as_json": (["inspect-models", "--json"], []),
           "picture": (["generate", *REQUEST, "--output", "-"], []),
           "help": (["help"], []), "limits": (["bench", "peak", "--repeat", "1"], []), "check": (["check"], []),
           "list_of_devices": (["resources"], []), "catalogue": (["fetch-models"], []),
           "seed": (["generate", *REQUEST], ["output.png"]),
           "description": (["generate", *REQUEST, "--json"], ["output.png"])}


def fails(args, stdout, reason, left):
    return lambda self: self.fails(args, stdout, "standard output", reason, left=left)


for answer, (arguments, files) in ANSWERS.items():
    add_cases(Stream, [
        (f"fails_with_a_message_when_the_{answer}_goes_to_a_full_device",
         fails(arguments, "full", "No space left on device", files)),
        (f"fails_with_a_message_when_the_{answer}_goes_to_a_closed_stream",
         fails(arguments, "closed", "Bad file descriptor", files)),
    ])


class DiskFull(Case):
    """A file system of a few pages, mounted for one run only."""

    SCRIPT = """mount -t tmpfs -o size="$1",mode=755 none "$2" || exit 99
                cd "$2" || exit 99
                [ -z "$3" ] || printf %s "$4" >"$3"
                shift 4
                "$@"; code=$?
                for name in $(ls -A); do echo "left $name $(wc -c <"$name")" >&2; done
                exit $code"""

    OLD = "something else"

    def fills(self, there, *args, size="8k"):
        world = needs_namespaces("--mount")
        probe = subprocess.run([*world, "mount", "-t", "tmpfs", "none", str(self.home)], capture_output=True, text=True,
                               check=False)
        if probe.returncode:
            self.skipTest(f"no file system can be mounted: {probe.stderr.strip()}")
        before = [*world, "sh", "-c", self.SCRIPT, "sh", size, str(self.folder), there, self.OLD]
        result = self.kuno("generate", *args, "--quiet", before=before)
        self.assertEqual(result.code, 2, result.err)
        lines = result.err.splitlines()
        self.assert_one_message(lines[0] + "\n")
        self.assertIn("No space left on device", lines[0])
        return [line.removeprefix("left ") for line in lines[1:]]

    def test_new(self):
        """leaves_nothing_on_a_full_disk"""
        self.assertEqual(self.fills("", "a boat", "--output", "boat.png"), [])

    def test_old(self):
        """keeps_the_file_that_it_cannot_replace_on_a_full_disk"""
        self.assertEqual(self.fills("boat.png", "a boat", "--output", "boat.png"), [f"boat.png {len(self.OLD)}"])

    def test_dump(self):
        """leaves_no_half_dump_on_a_full_disk"""
        left = self.fills("", *REQUEST, "--dump", ".", size="16k")
        self.assertEqual([line.split()[0] for line in left], ["output.png"])


if __name__ == "__main__":
    tap.main()
