"""Files that cannot be used: each is refused in one line that says why, at once, and nothing is left behind."""

import json
import os
import pathlib
import shutil
import struct

import safetensors
import tap
from kuno import E2E, GOLDEN, TINY_PICTURE, Case, add_cases, as_nobody

TRANSFORMER = E2E / "transformer.safetensors"
FILE_CASES = GOLDEN / "weights" / "cases"


def draw(*more):
    return ["generate", "a boat", *TINY_PICTURE, *more]


def entry(begin, end, shape=None, dtype="U8"):
    return {"dtype": dtype, "shape": [end - begin] if shape is None else shape, "data_offsets": [begin, end]}


SLOTS = {"diffusion-model": "diffusion model", "text-encoder": "text encoder", "vae": "VAE",
         "tokenizer-path": "tokenizer"}


class Component(Case):
    """What a path may lead to, in each of the four places."""

    def refuses_part(self, option, path, *says, **start):
        return self.refuses(draw(f"--{option}", str(path)), f"kuno: {SLOTS[option]}: ", *says, **start)

    def refuses_model(self, data, *says):
        path = self.write("model.safetensors", data)
        return self.refuses_part("diffusion-model", path, path, *says)

    def absent(self, option):
        self.refuses_part(option, self.inputs / "absent", "no such file", str(self.inputs / "absent"))

    def empty(self, option):
        path = self.write("nothing", b"")
        self.refuses_part(option, path, path, "the file ends" if option == "tokenizer-path" else "is empty (0 bytes)")

    def folder_in_its_place(self, option):
        self.refuses_part(option, self.inputs, "merges.txt" if option == "tokenizer-path" else "holds no safetensors")

    def device(self, option):
        self.refuses_part(option, "/dev/zero", "is not a regular file")

    def pipe(self, option):
        os.mkfifo(self.inputs / "pipe")
        self.refuses_part(option, self.inputs / "pipe", "is not a regular file")

    def unreadable(self, option):
        path = pathlib.Path(self.write("secret", TRANSFORMER.read_bytes()))
        path.chmod(0)
        self.folder.chmod(0o777)
        self.refuses(["generate", "a boat", f"--{option}", str(path)],  # the built-in model: nothing else is read
                     f"kuno: {SLOTS[option]}: ", "Permission denied", **as_nobody(self))


for slot in SLOTS:
    add_cases(Component, [
        (f"refuses_an_absent_file_for_{slot}", lambda self, slot=slot: self.absent(slot)),
        (f"refuses_an_empty_file_for_{slot}", lambda self, slot=slot: self.empty(slot)),
        (f"refuses_an_empty_folder_for_{slot}", lambda self, slot=slot: self.folder_in_its_place(slot)),
        (f"refuses_a_device_for_{slot}", lambda self, slot=slot: self.device(slot)),
        (f"refuses_a_pipe_for_{slot}_without_waiting_for_a_writer", lambda self, slot=slot: self.pipe(slot)),
        (f"refuses_an_unreadable_file_for_{slot}", lambda self, slot=slot: self.unreadable(slot)),
    ])


def wrong(data, *says):
    return lambda self: self.refuses_model(data() if callable(data) else data, *says)


def cut(at):
    """The transformer up to a place, which is counted from its end if it is negative."""
    return lambda: TRANSFORMER.read_bytes()[:at]


def header_end():
    return safetensors.LENGTH_BYTES + struct.unpack("<Q", TRANSFORMER.read_bytes()[:8])[0]


def sparse(header_bytes, size):
    """A large file of holes behind the length of its header and the first sign of that."""
    def check(self):
        path = self.write("large.safetensors", struct.pack("<Q", header_bytes) + b"{")
        os.truncate(path, size)
        self.refuses_part("diffusion-model", path, f"a header of {header_bytes} bytes, 2 to 100000000 are allowed")
    return check


add_cases(Component, [
    ("says_that_a_file_is_cut_within_the_length_of_its_header", wrong(cut(5), "truncated: 5 bytes")),
    ("says_that_a_file_is_cut_after_the_length_of_its_header", wrong(cut(8), "is truncated", "0 are there")),
    ("says_that_a_file_is_cut_within_its_header", wrong(cut(1000), "truncated: its header has", "992 are there")),
    ("says_that_a_file_is_cut_after_its_header", wrong(cut(header_end()), f"truncated: {header_end()} of ")),
    ("says_that_a_file_is_cut_within_its_tensors", wrong(cut(-100_000), "is truncated")),
    ("says_that_a_file_lacks_its_last_byte",
     wrong(cut(-1), "is truncated", f"{TRANSFORMER.stat().st_size - 1} of {TRANSFORMER.stat().st_size} bytes")),
    ("refuses_a_header_beyond_the_end_of_the_file",
     wrong(struct.pack("<Q", 50_000_000) + b"{" + bytes(100), "its header has 50000000 bytes, 101 are there")),
    ("refuses_a_header_of_more_than_100_MB", sparse(150_000_000, 300_000_000)),
    ("refuses_a_header_of_2_to_the_63_bytes", sparse(1 << 63, 20_000_000_000)),
    ("refuses_a_header_that_is_not_json", wrong(safetensors.join(b"{not json at all}", b""), "its header is broken")),
    ("refuses_a_header_that_is_a_list", wrong(safetensors.join(b"[1, 2]", b""), "does not begin with '{'")),
    ("refuses_a_header_that_ends_too_early", wrong(safetensors.join(b'{"a":{"dtype":', b""), "its header is broken")),
    ("refuses_a_tensor_that_is_there_twice",
     wrong(safetensors.join(b'{"a":' + json.dumps(entry(0, 1)).encode() + b',"a":' + json.dumps(entry(1, 2)).encode()
                            + b"}", b"ab"), "tensor 'a' is there twice")),
    ("refuses_a_field_that_is_there_twice",
     wrong(safetensors.join(b'{"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"a"),
           "tensor 'a': has 'dtype' twice")),
    ("refuses_an_unknown_field",
     wrong(safetensors.join({"a": {**entry(0, 1), "stride": 1}}, b"a"), "tensor 'a': has the unknown field 'stride'")),
    ("refuses_tensors_that_overlap",
     wrong(safetensors.join({"a": entry(0, 4), "b": entry(2, 6)}, bytes(6)), "tensors 'a' and 'b' overlap")),
    ("refuses_bytes_that_belong_to_no_tensor",
     wrong(safetensors.join({"a": entry(0, 2), "b": entry(4, 6)}, bytes(6)), "bytes 2 to 4")),
    ("refuses_bytes_after_the_last_tensor",
     wrong(safetensors.join({"a": entry(0, 2)}, bytes(9)), "7 bytes after its last tensor")),
    ("refuses_offsets_beyond_the_end",
     wrong(safetensors.join({"a": entry(0, 1 << 40)}, bytes(6)), "is truncated", "bytes are missing")),
    ("refuses_offsets_that_run_backwards",
     wrong(safetensors.join({"a": entry(4, 2, [2])}, bytes(6)), "tensor 'a': its data_offsets [4, 2] are not a range")),
    ("refuses_offsets_beyond_64_bits",
     wrong(safetensors.join({"a": entry(0, 1 << 64)}, bytes(6)), "tensor 'a'", "its header is broken")),
    ("refuses_a_shape_that_its_bytes_do_not_hold",
     wrong(safetensors.join({"a": entry(0, 8, [3], "F32")}, bytes(8)),
           "tensor 'a': its shape [3] of F32 needs 12 bytes, its data_offsets hold 8")),
    ("refuses_a_shape_whose_product_overflows",
     wrong(safetensors.join({"a": entry(0, 0, [1 << 32, 1 << 32], "F32")}, b""), "tensor 'a'", "overflows")),
    ("refuses_a_shape_whose_bytes_overflow",
     wrong(safetensors.join({"a": entry(0, 0, [1 << 62], "F32")}, b""), "tensor 'a'", "overflows")),
    ("refuses_a_thousand_dimensions",
     wrong(safetensors.join({"a": entry(0, 1, [1] * 1000)}, b"a"), "tensor 'a'", "has more than", "dimensions")),
    ("refuses_an_unknown_storage_type",
     wrong(safetensors.join({"a": entry(0, 1, dtype="Q17")}, b"a"), "tensor 'a': has the unknown storage type 'Q17'")),
    ("refuses_a_file_without_tensors", wrong(safetensors.join({}, b""), "the file holds no tensors")),
])


def changed(change):
    """The transformer with something done to its tensors, {name: (dtype, shape, bytes)}."""
    def data():
        tensors = safetensors.parts(TRANSFORMER)
        change(tensors)
        return safetensors.make(tensors)
    return data


def matrix(tensors):
    return next(name for name in tensors if name.endswith("transformer_blocks.0.attn.to_q.weight"))


def drop_one(tensors):
    del tensors[matrix(tensors).replace("to_q", "to_k")]


def drop_many(tensors):
    """All but what shows which network this is."""
    kept = {name: tensors[name] for name in tensors if name.endswith(("0.attn.to_q.weight", "text_norm.weight"))}
    tensors.clear()
    tensors.update(kept)


def add(count):
    def change(tensors):
        tensors.update({f"unheard.of.{i:02}": ("F32", [1], bytes(4)) for i in range(count)})
    return change


def reshape(shape_of):
    def change(tensors):
        name = matrix(tensors)
        dtype, shape, data = tensors[name]
        tensors[name] = (dtype, shape_of(shape), data)
    return change


class Network(Case):
    """Files that are sound and not the network that is needed."""

    def refuses_model(self, data, *says):
        path = self.write("model.safetensors", data())
        return self.refuses(draw("--diffusion-model", path), "kuno: diffusion model: ", *says)

    def test_leftover(self):
        """names_ten_leftover_keys_and_counts_the_others"""
        result = self.refuses_model(changed(add(12)), "unheard.of.00", "unheard.of.09", "2 more")
        self.assertNotIn("unheard.of.10", result.err)

    def test_missing(self):
        """names_ten_missing_keys_and_counts_the_others"""
        result = self.refuses_model(changed(drop_many), "missing")
        self.assertRegex(result.err, r"missing '[^']+'(, '[^']+'){9} and \d+ more\n")


add_cases(Network, [
    ("names_a_key_that_is_missing",
     lambda self: self.refuses_model(changed(drop_one), "transformer_blocks.0.attn.to_k.weight", "missing")),
    ("names_a_key_that_is_left_over",
     lambda self: self.refuses_model(changed(add(1)), "unheard.of.00")),
    ("names_a_tensor_of_the_wrong_shape",
     lambda self: self.refuses_model(changed(reshape(lambda s: [s[0] // 2, s[1] * 2])),
                                     "attn.to_q.weight", "expected [64, 64], found [32, 128]")),
    ("names_a_tensor_of_zero_dimensions_where_a_matrix_is_needed",
     lambda self: self.refuses_model(changed(
         lambda tensors: tensors.update({matrix(tensors): ("F32", [], bytes(4))})), "attn.to_q.weight")),
    ("names_a_tensor_of_no_elements_where_a_matrix_is_needed",
     lambda self: self.refuses_model(changed(
         lambda tensors: tensors.update({matrix(tensors): ("F32", [0, 0], b"")})), "attn.to_q.weight")),
    ("names_a_tensor_of_too_many_dimensions",
     lambda self: self.refuses_model(changed(reshape(lambda s: [s[0], s[1] // 2, 2])), "attn.to_q.weight")),
])


WANTED = {"diffusion-model": ("transformer", "a Qwen-Image 2.1 diffusion model"),
          "text-encoder": ("text_encoder", "a Qwen3-VL text encoder"),
          "vae": ("vae", "a Qwen-Image 2.1 VAE")}


def swapped(option, other):
    def check(self):
        self.refuses(draw(f"--{option}", str(E2E / f"{WANTED[other][0]}.safetensors")),
                     f"the file is {WANTED[other][1]}; {WANTED[option][1]} is needed here")
    return check


add_cases(Network, [(f"says_what_a_{other}_given_as_{option}_is", swapped(option, other))
                    for option in WANTED for other in WANTED if other != option])


class Tokenizer(Case):
    """Folders and files that are no tokenizer."""

    def refuses_folder(self, files, *says):
        for name, source in files.items():
            if isinstance(source, str):
                (self.inputs / name).write_text(source)
            else:
                shutil.copy(source, self.inputs / name)
        self.refuses(draw("--tokenizer-path", str(self.inputs)), "kuno: tokenizer: ", *says)

    def test_other(self):
        """says_that_a_tokenizer_and_a_text_encoder_do_not_belong_together"""
        document = json.loads((E2E / "tokenizer.json").read_text())
        vocabulary, more = document["model"]["vocab"], 20_000
        vocabulary.update({f"surplus{i}": len(vocabulary) + i for i in range(more)})
        for token in document["added_tokens"]:
            token["id"] += more
        path = self.write("tokenizer.json", json.dumps(document))
        self.refuses(draw("--tokenizer-path", path), "kuno: tokenizer: ", "they do not belong together")


QWEN = GOLDEN / "tokenizer-tiny"
add_cases(Tokenizer, [
    ("refuses_a_tokenizer_folder_without_merges",
     lambda self: self.refuses_folder({"vocab.json": QWEN / "vocab.json"}, "merges.txt")),
    ("refuses_a_tokenizer_folder_without_vocabulary",
     lambda self: self.refuses_folder({"merges.txt": QWEN / "merges.txt"}, "vocab.json")),
    ("refuses_a_tokenizer_whose_merges_are_empty",
     lambda self: self.refuses_folder({"vocab.json": QWEN / "vocab.json", "merges.txt": ""}, "merges.txt")),
    ("refuses_a_tokenizer_that_is_not_json",
     lambda self: self.refuses_folder({"tokenizer.json": "{,}"}, "tokenizer.json")),
    ("refuses_a_tokenizer_of_another_kind",
     lambda self: self.refuses_folder({"tokenizer.json": '{"model": {"type": "WordPiece"}}'}, "tokenizer.json")),
    ("refuses_a_model_file_as_tokenizer",
     lambda self: self.refuses(draw("--tokenizer-path", str(TRANSFORMER)), "kuno: tokenizer: ")),
])


# What each odd file says as a diffusion model; those that can be read are not one. tests/golden/weights/README.md says
# what each of them is.
ODD = {row["file"]: row for row in json.loads((GOLDEN / "weights" / "expected.json").read_text())}
OPENED = {"no tensors": "the file holds no tensors", "open": "the file is not a Qwen-Image 2.1 diffusion model",
          "refuse to bind": "the file is not a Qwen-Image 2.1 diffusion model"}


def odd(row):
    says = row["says"] if row["result"] == "refuse" else OPENED[row["result"]]
    return lambda self: self.refuses(draw("--diffusion-model", str(FILE_CASES / row["file"])), says)


class Odd(Case):
    def test_all(self):
        """tries_every_odd_file_that_there_is"""
        self.assertEqual(sorted(ODD), sorted(path.name for path in FILE_CASES.iterdir()))
        self.assertEqual(len(ODD), 22)


add_cases(Odd, [(f"refuses_{name.removesuffix('.safetensors')}_as_diffusion_model", odd(row))
                for name, row in ODD.items()])

if __name__ == "__main__":
    tap.main()
