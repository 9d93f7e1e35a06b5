"""Requests that cannot be met: each is refused in one line that says why, at once, and nothing is left behind."""

import tap
from kuno import E2E, TINY, Case, add_cases

HUGE = "9" * 400


class Request(Case):
    """What the command line asks of the built-in model, and of one whose steps can be chosen."""

    def refuses_request(self, *args, says, prompt="a boat"):
        self.refuses(["generate", prompt, *args], *([says] if isinstance(says, str) else says))


def request(*args, says, **more):
    return lambda self: self.refuses_request(*args, says=says, **more)


def tiny(*args, says):
    return request(*TINY, *args, says=says)


SEEDS = "whole number from 0 to 18446744073709551615, or -1 for random"

add_cases(Request, [
    ("names_the_size_nearest_to_one_that_is_no_multiple_of_16",
     request("--size", "100x128", says=("width 100 is not a multiple of 16", "nearest allowed is 96"))),
    ("names_the_size_nearest_to_a_height_that_is_no_multiple_of_16",
     request("--size", "128x127", says=("height 127 is not a multiple of 16", "nearest allowed is 128"))),
    ("names_the_size_nearest_to_one_just_below_the_largest",
     request("--size", "4095x128", says="nearest allowed is 4096")),
    ("refuses_a_size_of_0", request("--size", "0x0", says="0x0 is outside 16x16 to")),
    ("refuses_a_height_of_0", request("--size", "256x0", says="256x0 is outside 16x16 to")),
    ("refuses_a_negative_size", request("--size=-64x64", says="-64x64 is outside 16x16 to")),
    ("refuses_a_width_of_2_to_the_31", request("--size", "2147483647x256", says="2147483647x256 is outside")),
    ("refuses_a_size_beyond_every_integer", request("--size", f"{HUGE}x256", says="is not a size like 1024x768")),
    ("refuses_a_size_that_the_model_does_not_make", request("--size", "8192x128", says="from 16 to 4096 pixels")),
    ("refuses_a_size_of_one_number", request("--size", "128", says="'128' is not a size like 1024x768")),
    ("refuses_a_size_of_fractions", request("--size", "128.0x128", says="is not a size like 1024x768")),
    ("refuses_a_size_with_text_behind_it", request("--size", "128x128px", says="is not a size like 1024x768")),

    ("refuses_0_steps", tiny("--steps", "0", says="--steps: 0 is outside 1 to 1000")),
    ("refuses_a_million_steps", tiny("--steps", "1000000", says="--steps: 1000000 is outside 1 to 1000")),
    ("refuses_steps_like_1e9", tiny("--steps", "1e9", says="--steps: '1e9' is not a whole number")),
    ("refuses_negative_steps", tiny("--steps", "-3", says="--steps: -3 is outside 1 to 1000")),
    ("refuses_steps_in_words", tiny("--steps", "twenty", says="--steps: 'twenty' is not a whole number")),
    ("refuses_steps_beyond_every_integer", tiny("--steps", HUGE, says="is outside 1 to 1000")),
    ("says_why_the_steps_of_a_turbo_model_cannot_be_chosen", request("--steps", "20", says="Turbo was distilled for")),
    ("says_why_the_guidance_of_a_turbo_model_cannot_be_chosen", request("--cfg", "4", says="Turbo was distilled for")),

    ("refuses_the_seed_2_to_the_64", request("--seed", str(1 << 64), says=SEEDS)),
    ("refuses_the_seed_minus_2", request("--seed", "-2", says=SEEDS)),
    ("refuses_the_seed_1.5", request("--seed", "1.5", says=SEEDS)),
    ("refuses_a_seed_in_hexadecimal", request("--seed", "0x10", says=SEEDS)),
    ("refuses_an_empty_seed", request("--seed", "", says=SEEDS)),
    ("refuses_seeds_that_counting_takes_beyond_64_bits",
     request("--seed", str((1 << 64) - 2), "--count", "3", says="the last seed would be beyond")),

    ("refuses_a_negative_cfg", tiny("--cfg", "-1", says="--cfg: -1 is outside 0 to 100")),
    ("refuses_an_infinite_cfg", tiny("--cfg", "1e999", says="--cfg: '1e999' is not a number")),
    ("refuses_a_cfg_that_is_not_a_number", tiny("--cfg", "nan", says="--cfg: 'nan' is not a number")),
    ("refuses_a_cfg_with_a_decimal_comma", tiny("--cfg", "4,5", says="--cfg: '4,5' is not a number")),

    ("lists_the_samplers_beside_an_unknown_one", tiny("--sampler", "dpm42", says=("'dpm42'", "euler", "known: "))),
    ("suggests_the_sampler_that_was_meant", tiny("--sampler", "eulr", says="did you mean 'euler'?")),
    ("lists_the_schedulers_beside_an_unknown_one",
     tiny("--scheduler", "cosine", says=("'cosine'", "official", "known: "))),
    ("lists_the_noises_beside_an_unknown_one", tiny("--rng", "dice", says=("'dice'", "torch-cpu", "torch-cuda"))),
    ("lists_the_devices_beside_an_unknown_one", request("--device", "tpu", says=("'tpu'", "cpu"))),
    ("lists_the_precisions_beside_an_unknown_one", request("--precision", "half", says=("'half'", "fast", "exact"))),
    ("refuses_0_threads", request("--threads", "0", says="--threads: 0 is outside 1 to 1024")),
    ("refuses_a_million_threads", request("--threads", "1000000", says="is outside 1 to 1024")),
    ("refuses_0_pictures", request("--count", "0", says="--count: 0 is outside 1 to")),
    ("refuses_sigmas_that_rise", tiny("--sigmas", "0.5,1,0", says="sigma")),
    ("refuses_sigmas_that_are_text", tiny("--sigmas", "1,half,0", says="'half' is not a number")),
    ("refuses_sigmas_beside_steps", tiny("--sigmas", "1,0.5,0", "--steps", "2", says="give one of them")),
    ("refuses_start_noise_of_another_size",
     tiny("--size", "32x32", "--init-noise", str(E2E / "t2i" / "inputs.safetensors"), says="noise")),
    ("refuses_start_noise_without_a_tensor_of_that_name",
     tiny("--init-noise", str(E2E / "t2i" / "expected.safetensors"), says="a tensor 'noise' of type F32 is needed")),
    ("refuses_start_noise_that_is_absent", tiny("--init-noise", "absent", says="--init-noise: 'absent': no such file")),

    ("refuses_an_empty_prompt", request(prompt="", says="the prompt is empty")),
    ("refuses_a_prompt_that_is_not_utf8", request(prompt=b"a \xc3( boat", says="is not UTF-8 text (byte 3)")),
    ("refuses_a_prompt_with_half_a_surrogate_pair", request(prompt=b"a \xed\xa0\x80 boat", says="is not UTF-8")),
    ("refuses_a_prompt_in_latin1", request("--negative-prompt", b"caf\xe9", says="is not UTF-8 text (byte 4)")),
    ("names_the_limit_of_a_prompt_of_60000_characters", request(prompt="boat " * 12_000, says="tokens, at most")),
    ("names_the_limit_of_a_prompt_of_100000_characters", request(prompt="boat " * 20_000, says="tokens, at most")),
    ("names_the_limit_of_a_prompt_that_is_one_word_of_100000_letters", request(prompt="a" * 100_000, says="at most")),
    ("names_the_limit_of_a_prompt_of_100000_emoji", request(prompt="\N{ROCKET}" * 30_000, says="at most")),
    ("refuses_a_command_without_a_prompt",
     lambda self: self.refuses(["generate"], "needs a prompt, like: kuno generate")),
    ("refuses_a_prompt_whose_quotes_were_forgotten",
     lambda self: self.refuses(["generate", "a", "red", "boat"], "a text of several words needs quotes around it")),
    ("refuses_a_prompt_that_is_given_twice",
     lambda self: self.refuses(["generate", "a boat", "--prompt", "a car"], "say the same; give one of them")),
    ("refuses_an_option_that_is_given_twice", request("--seed", "1", "--seed", "2", says="--seed: is given twice")),
    ("refuses_an_option_without_its_value", request("--seed", says="--seed: needs a value")),
    ("refuses_an_option_in_place_of_a_value", request("--seed", "--quiet", says="--seed: needs a value")),
    ("refuses_a_flag_with_a_value", request("--quiet=yes", says="--quiet: takes no value")),
])


PARTS = "\n".join(f'{key} = "{E2E / file}"' for key, file in (
    ("diffusion_model", "transformer.safetensors"), ("text_encoder", "text_encoder.safetensors"),
    ("vae", "vae.safetensors"), ("tokenizer", "tokenizer.json")))
PROFILE = f'[model_profiles.mine]\narchitecture = "qwen-image-2.1"\nvariant = "base"\n{PARTS}\n'


class Profiles(Case):
    """What models.toml says, and what is asked of it."""

    def refuses_config(self, text, *says, args=()):
        path = self.write("models.toml", text)
        self.refuses(["generate", "a boat", "--config", path, "--model-profile", "mine", *args],
                     f"kuno: {path}: " if not args else "kuno: ", *says)

    def test_right(self):
        """draws_with_the_profile_that_the_other_cases_spoil"""
        path = self.write("models.toml", PROFILE)
        self.draws("a boat", "--config", path, "--model-profile", "mine", "--size", "32x32", "--steps", "1")

    def test_home(self):
        """reads_models_toml_of_the_home_folder"""
        (self.home / ".config" / "kuno").mkdir(parents=True)
        (self.home / ".config" / "kuno" / "models.toml").write_text(PROFILE)
        self.draws("a boat", "--model-profile", "mine", "--size", "32x32", "--steps", "1")

    def test_broken_home(self):
        """refuses_a_broken_models_toml_of_the_home_folder_rather_than_passing_over_it"""
        (self.home / ".config" / "kuno").mkdir(parents=True)
        (self.home / ".config" / "kuno" / "models.toml").write_text("models = 1\n")
        self.refuses(["generate", "a boat"], ".config/kuno/models.toml: line 1")


def config(text, *says, **more):
    return lambda self: self.refuses_config(text, *says, **more)


add_cases(Profiles, [
    ("names_the_line_and_the_name_of_an_unknown_key",
     config(PROFILE + "stepps = 3\n", "line 8: unknown key 'stepps' in [model_profiles.mine]; did you mean 'steps'?")),
    ("names_the_line_and_the_name_of_an_unknown_table",
     config(PROFILE + "[serverr]\n", "line 8: unknown key 'serverr' in the file")),
    ("names_the_line_of_a_value_out_of_range", config(PROFILE + "steps = 0\n", "line 8: steps must lie between 1 and")),
    ("names_the_line_of_a_value_of_the_wrong_type",
     config(PROFILE + 'steps = "many"\n', "line 8: steps must be an integer, not")),
    ("names_the_line_of_a_key_that_is_there_twice", config(PROFILE + "steps = 3\nsteps = 4\n", "line 9", "steps")),
    ("names_the_line_where_toml_is_broken", config(PROFILE + "steps = = 3\n", "line 8")),
    ("names_the_line_of_an_unknown_architecture",
     config(PROFILE.replace("qwen-image-2.1", "qwen-image-9"), "line 2: unknown architecture 'qwen-image-9'")),
    ("names_the_line_of_an_unknown_variant",
     config(PROFILE.replace('"base"', '"fast"'), "line 3: unsupported qwen-image-2.1 variant: fast")),
    ("refuses_a_models_toml_that_is_not_utf8", config(PROFILE.encode() + b"# caf\xe9\n", "line 8")),
    ("refuses_an_unknown_profile_and_lists_the_known_ones",
     lambda self: self.refuses(["generate", "a boat", "--model-profile", "nope"], "unknown model profile 'nope'",
                               "known: demo")),
    ("names_the_file_of_a_profile_that_is_missing",
     config(PROFILE.replace("vae.safetensors", "gone.safetensors"), "VAE: ", "gone.safetensors': no such file",
            args=["--size", "32x32"])),
    ("names_the_part_that_a_profile_lacks",
     config("\n".join(line for line in PROFILE.split("\n") if not line.startswith("vae")), "profile 'mine' has no vae",
            args=["--size", "32x32"])),
    ("refuses_a_config_that_is_absent",
     lambda self: self.refuses(["generate", "a boat", "--config", "absent.toml"], "absent.toml: no such file")),
    ("refuses_a_config_that_is_a_folder",
     lambda self: self.refuses(["generate", "a boat", "--config", str(self.inputs)], "is a folder")),
    ("refuses_a_config_that_is_a_model",
     lambda self: self.refuses(["generate", "a boat", "--config", str(E2E / "vae.safetensors")], "vae.safetensors: ")),
])

class Slip(Case):
    """What was typed wrong."""


add_cases(Slip, [(f"suggests_{meant}_for_{slip.lstrip('-')}",
                     lambda self, args=args, meant=meant: self.refuses(args, f"did you mean '{meant}'?"))
                    for args, slip, meant in (
                        (["inspect-model"], "inspect-model", "inspect-models"),
                        (["generate", "a boat", "--sed", "1"], "--sed", "--seed"),
                        (["generate", "a boat", "--promt", "x"], "--promt", "--prompt"),
                        (["inspect-models", "--jsn"], "--jsn", "--json"))])

add_cases(Slip, [(promise, lambda self, args=args, says=says: self.refuses(args, says)) for promise, args, says in (
    ("refuses_an_unknown_option", ["--frobnicate"], "unknown option '--frobnicate'"),
    ("refuses_an_unknown_option_of_a_command", ["generate", "--frobnicate"], "unknown option '--frobnicate'"),
    ("refuses_an_unknown_letter", ["generate", "-Z"], "unknown option '-Z'"),
    ("refuses_an_empty_command", [""], "unknown command ''"),
    ("refuses_a_command_with_escapes_of_terminals", ["\x1b[31mred"], r"unknown command '\x1b[31mred'"),
    ("refuses_an_option_of_100000_letters", ["generate", "--" + "a" * 100_000], "unknown option"),
)])

if __name__ == "__main__":
    tap.main()
