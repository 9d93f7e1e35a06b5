"""kuno bench: what is measured is told, in a form that programs can read."""

import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import time

import tap
from kuno import E2E, GOLDEN, HANG_SECONDS, TINY, Case, add_cases

ALL = {"bench", "kernels", "threads", "precision", "seconds", "median_seconds", "cpu_seconds", "work", "unit",
       "per_second", "per_second_by_cpu", "peak"}
OPERATION = ALL | {"name"}
STAGE = ALL | {"model", "architecture", "variant", "width", "height", "prompt_tokens", "first_seconds", "load_seconds",
               "weight_bytes", "peak_bytes", "peak_rss_bytes"}
MEMORY = {"read", "update"}
DEMO = pathlib.Path(__file__).parents[2] / "models" / "demo"


class Measuring(Case):
    def measures(self, *args, **start):
        result = self.kuno("bench", *args, **start)
        self.assertEqual((result.code, result.err), (0, ""))
        return result.out.decode()

    def lines(self, *args, **start):
        """Its results; each has to be one line."""
        text = self.measures(*args, "--json", **start)
        return [json.loads(line) for line in text.removesuffix("\n").split("\n")]

    def is_result(self, result, members):
        has_limit = {"limit", "share"} if "limit" in result else set()
        self.assertEqual(set(result), members | has_limit)
        self.assertGreater(result["work"], 0)
        self.assertIn(result["unit"], ("FLOP/s", "B/s"))
        self.assertAlmostEqual(result["per_second"] * result["median_seconds"] / result["work"], 1, places=4)
        if has_limit:
            self.assertIn(result["limit"], result["peak"])
            self.assertAlmostEqual(result["share"] * result["peak"][result["limit"]] / result["per_second_by_cpu"], 1,
                                   places=4)

    def stage(self, *args):
        result, = self.lines(*args)
        self.is_result(result, STAGE)
        self.assertAlmostEqual(result["median_seconds"], statistics.median(result["seconds"]), places=7)
        for figure in ("first_seconds", "median_seconds", "cpu_seconds", "weight_bytes", "peak_bytes"):
            self.assertGreater(result[figure], 0, figure)
        return result


class Stages(Measuring):
    def test_demo(self):
        """measures_every_stage_of_the_demo_model"""
        for stage in ("encode", "step", "decode"):
            result = self.stage(stage, "--tokens", "40", "--repeat", "3", "--threads", "1")
            self.assertEqual((result["bench"], result["model"]), (stage, "demo"))
            self.assertEqual((result["width"], result["height"], result["threads"]), (128, 128, 1))
            self.assertEqual(len(result["seconds"]), 3)

    def test_repeat(self):
        """measures_as_often_as_was_asked_even_if_one_picture_has_fewer_steps"""
        self.assertEqual(len(self.stage("step", "--repeat", "10")["seconds"]), 10)
        self.assertEqual(len(self.stage("step", *TINY, "--size", "32x32", "--repeat", "2")["seconds"]), 2)
        self.assertEqual(len(self.stage("decode", "--repeat", "1")["seconds"]), 1)

    def test_tokens(self):
        """has_a_prompt_of_the_length_that_was_asked_for"""
        short, long = (self.stage("encode", "--repeat", "1", "--tokens", tokens)["prompt_tokens"]
                       for tokens in ("40", "140"))
        self.assertEqual(long - short, 100)

    def test_profile(self):
        """takes_model_size_and_precision_from_the_command_line"""
        result = self.stage("step", *TINY, "--model-profile", "tiny-gguf", "--size", "48x32", "--precision", "exact",
                            "--repeat", "1")
        told = {name: result[name] for name in ("model", "variant", "width", "height", "precision")}
        self.assertEqual(told, {"model": "tiny-gguf", "variant": "base", "width": 48, "height": 32,
                                "precision": "exact"})

    def test_work(self):
        """counts_the_work_of_a_stage_as_a_paper_does"""
        few, many = (self.stage("encode", "--repeat", "1", "--tokens", tokens) for tokens in ("20", "120"))
        tokens = [result["prompt_tokens"] for result in (few, many)]
        model = json.loads((DEMO / "model.json").read_text())["dimensions"]["text_encoder"]
        width, heads = model["hidden"], model["heads"] * model["head_dim"]
        matrices = width * (2 * heads + 2 * model["kv_heads"] * model["head_dim"] + 3 * model["mlp"])
        work = [2 * model["layers"] * n * (matrices + 2 * n * heads) for n in tokens]
        self.assertEqual([few["work"], many["work"]], work)

    def test_weights(self):
        """tells_how_large_the_weights_of_the_stage_are"""
        files = {"encode": "text_encoder", "step": "transformer", "decode": "vae"}
        for stage, file in files.items():
            size = self.stage(stage, *TINY, "--size", "32x32", "--repeat", "1")["weight_bytes"]
            self.assertLessEqual(size, (E2E / f"{file}.safetensors").stat().st_size)

    def test_text(self):
        """tells_people_of_a_stage"""
        text = self.measures("step", "--repeat", "2")
        self.assertRegex(text, r"\Ademo, Qwen-Image 2\.1: step at 128x128, 1\d\d tokens; "
                               r"\w+ kernels, \d+ threads?, fast\n")
        self.assertRegex(text, r"(?m)^median of 2 +\d+\.\d+ s, \d+\.\d+ s of processor time; \d+\.\d GFLOP/s")


class Upscaling(Measuring):
    UPSCALER = str(GOLDEN / "upscalers" / "compact-x2" / "weights.safetensors")

    def test_one(self):
        """tells_people_of_one_tile_and_one_thread"""
        text = self.measures("upscale", "--upscaler", self.UPSCALER, "--size", "32x32", "--repeat", "1",
                             "--threads", "1")
        self.assertRegex(text, r"\A[^\n]+, by 2: 32x32 in 1 tile; \w+ kernels, 1 thread, fast\n")


class Pictures(Measuring):
    NAMES = ["png 3840x2160", "lanczos 1024x1024 to 4096x4096", "lanczos 3840x2160 to 1365x768"]

    def test_all(self):
        """measures_what_happens_to_finished_pictures"""
        results = self.lines("picture", "--repeat", "1", "--threads", "1")
        self.assertEqual([result["name"] for result in results], self.NAMES)
        for result in results:
            png = {"file_bytes"} if "png" in result["name"] else set()
            self.assertEqual(set(result), {"bench", "name", "threads", "pixels", "per_second", "seconds",
                                           "median_seconds", "cpu_seconds"} | png)
            self.assertEqual((result["bench"], result["threads"], len(result["seconds"])), ("picture", 1, 1))
            self.assertAlmostEqual(result["per_second"] * result["median_seconds"] / result["pixels"], 1, places=4)
        pixels = 3840 * 2160
        self.assertEqual([result["pixels"] for result in results], [pixels, 4096 * 4096, pixels])
        self.assertTrue(pixels < results[0]["file_bytes"] < 3 * pixels, results[0])  # neither flat nor random

    def test_text(self):
        """tells_people_of_a_finished_picture"""
        text = self.measures("picture", "--filter", "1365", "--repeat", "1")
        self.assertRegex(text, r"\Alanczos 3840x2160 to 1365x768 +\d+\.\d\d ms  \d+\.\d megapixels/s\n\Z")


class Turns(Measuring):
    def turns(self, *args):
        """What comes when each measurement has to be asked for, twice."""
        process = self.start("bench", *args, "--json", "--paced", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        heard = []
        for line in process.stdout:
            heard.append(json.loads(line))
            if heard[-1]["bench"] == "ready" and len(heard) < 4:
                process.stdin.write(b"\n")
                process.stdin.flush()
            elif heard[-1]["bench"] == "ready":
                process.stdin.close()
        process.stdout.close()
        self.assertEqual(process.wait(HANG_SECONDS), 0)
        return heard

    def test_turns(self):
        """measures_when_it_is_asked_until_nobody_asks_any_more"""
        for args in (["encode"], ["step"], ["decode"], ["step", *TINY, "--size", "32x32"],
                     ["ops", "--filter", "attention 128"], ["picture", "--filter", "1365"]):
            *turns, result = self.turns(*args, "--repeat", "20")
            self.assertEqual([line["bench"] for line in turns], ["ready", "run", "ready", "run", "ready"], args)
            self.assertEqual(result["seconds"], [line["seconds"] for line in turns if line["bench"] == "run"])


class Operations(Measuring):
    def test_formats(self):
        """measures_a_matrix_in_every_storage_format"""
        results = self.lines("ops", "--filter", "linear 1x4096x4096", "--repeat", "2", "--threads", "1")
        for result in results:
            self.is_result(result, OPERATION)
            self.assertEqual((result["unit"], len(result["seconds"])), ("B/s", 2))
        named = {result["name"].removeprefix("linear 1x4096x4096 "): result["work"] for result in results}
        cells = 4096 * 4096
        self.assertEqual(named, {"F32": 4 * cells, "F16": 2 * cells, "BF16": 2 * cells, "F8_E4M3": cells,
                                 "Q8_0": cells * 34 // 32, "Q6_K": cells * 210 // 256, "Q4_K": cells * 144 // 256,
                                 "I8": cells, "ConvRot": cells})

    def test_kinds(self):
        """counts_floating_point_operations_and_bytes"""
        for name, work in (("attention 128", 4 * 128 * 128 * 4096), ("rms_norm 4096", 2 * 4 * 4096 * 3840)):
            for result in self.lines("ops", "--filter", name, "--repeat", "1"):
                self.is_result(result, OPERATION)
                self.assertEqual(result["work"], work)

    def test_text(self):
        """tells_people_of_an_operation"""
        text = self.measures("ops", "--filter", "attention 128", "--repeat", "1")
        self.assertRegex(text, r"\Aattention 128 32/8x128 +\d+\.\d\d ms  \d+\.\d GFLOP/s(, \d+ % of \w+)?\n\Z")


class Limits(Measuring):
    def peak(self, tier):
        result, = self.lines("peak", "--repeat", "2", "--threads", "1", env={"KUNO_CPU": tier})
        self.assertEqual(set(result), {"bench", "kernels", "threads", "cores", "processors", "peak"})
        self.assertTrue(1 <= result["cores"] <= result["processors"] <= len(os.sched_getaffinity(0)), result)
        self.assertEqual((result["bench"], result["kernels"], result["threads"]), ("peak", tier, 1))
        return result["peak"]

    def test_memory(self):
        """measures_memory_with_any_kernels"""
        found = self.peak("reference")
        self.assertEqual(set(found), MEMORY)
        self.assertTrue(all(1e8 < rate < 1e13 for rate in found.values()), found)

    def test_tier(self):
        """measures_no_unit_that_the_kernels_do_not_use"""
        result, = self.lines("peak", "--repeat", "1", "--threads", "1")
        if result["kernels"] == "reference":
            self.skipTest("this processor has no kernels of its own")
        if result["kernels"].startswith("avx"):
            self.assertEqual(set(self.peak("avx2")), {"fma", "int8"} | MEMORY)
        if result["kernels"].startswith("avx512"):
            self.assertEqual(set(self.peak("avx512")), {"fma"} | MEMORY)
        self.assertGreater(result["peak"]["fma"], 1e9)

    def test_threads(self):
        """more_threads_than_processors_raise_no_limit"""
        processors = len(os.sched_getaffinity(0))
        few, many = (self.lines("peak", "--repeat", "1", "--threads", str(n))[0]["peak"]["fma"]
                     for n in (processors, 16 * processors))
        self.assertLess(many, 4 * few)

    def test_text(self):
        """tells_people_of_the_limits"""
        self.assertRegex(self.measures("peak", "--repeat", "1"),
                         r"\A\w+ kernels, \d+ threads?; \d+ cores?, \d+ processors? may be used\n"
                         r"(\w+ +\d+\.\d G(FLOP|B)/s\n)+\Z")


class Stopping(Measuring):
    def wait_until_heard(self, process, number):
        """It has a word to say to that signal."""
        end = time.monotonic() + HANG_SECONDS
        while not int(re.search(r"SigCgt:\s+(\w+)", pathlib.Path(f"/proc/{process.pid}/status").read_text())[1],
                      16) >> (number - 1) & 1:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.001)

    def test_interrupt(self):
        """ends_when_somebody_asks"""
        for args in (["ops"], ["step", "--repeat", "1000"], ["peak", "--repeat", "1000"]):
            process = self.start("bench", *args, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            self.wait_until_heard(process, signal.SIGINT)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=120)
            self.assertEqual((process.returncode, err), (130, b"kuno: cancelled\n"), args)


class Refusals(Case):
    pass


def refusal(*args):
    return lambda case: case.refuses(["bench", *args[:-1]], args[-1])


add_cases(Refusals, (
    ("wants_to_know_what_to_measure", refusal("needs to know what to measure")),
    ("names_what_can_be_measured", refusal("stepp", "unknown word 'stepp'; known: peak, ops, encode, step, decode")),
    ("refuses_a_filter_that_fits_nothing", refusal("ops", "--filter", "nothing", "no operation has 'nothing'")),
    ("refuses_a_filter_that_fits_no_picture", refusal("picture", "--filter", "jpeg", "no operation has 'jpeg'")),
    ("refuses_threads_for_what_has_one", refusal("picture", "--threads", "2", "is done by 1 thread")),
    ("refuses_a_precision_for_finished_pictures", refusal("picture", "--precision", "fast", "pictures are finished")),
    ("refuses_a_filter_where_nothing_is_chosen", refusal("step", "--filter", "x", "--filter chooses operations")),
    ("refuses_a_model_where_none_is_used", refusal("ops", "--config", "x", "--config is for the stages")),
    ("refuses_a_size_where_none_is_used", refusal("peak", "--size", "64x64", "--size is for the stages")),
    ("refuses_to_take_turns_with_people", refusal("step", "--paced", "needs --json")),
    ("refuses_to_measure_never", refusal("peak", "--repeat", "0", "0 is outside 1 to 1000")),
    ("refuses_a_model_that_it_does_not_know", refusal("step", "--model-profile", "x", "unknown model profile 'x'")),
    ("refuses_a_size_that_the_model_cannot_draw", refusal("step", "--size", "130x128", "not a multiple of 16")),
))

tap.main()
