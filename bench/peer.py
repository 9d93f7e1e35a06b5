"""The peer of bench/demo: the built-in model in diffusers, warm in memory, drawing on request.

    peer.py MODEL_FOLDER

Needs what requirements.txt names. Reads one JSON object per line and answers each with one:

    {"do": "about"}                                             -> versions, number of steps, kernels
    {"do": "draw", "precision": P, "threads": N, "prompt": T, "seed": S}
                                                                -> seconds of each stage, seconds of CPU time, peak RSS
    {"do": "compare", "precision": P, "file": F}                -> PSNR of the last picture of P against a PNG
"""

import json
import platform
import re
import resource
import sys
import time

import diffusers
import numpy as np
import torch
import transformers
from diffusers import (
    AutoencoderKLQwenImage21,
    FlowMatchEulerDiscreteScheduler,
    QwenImage21Pipeline,
    QwenImage21Transformer2DModel,
)
from PIL import Image
from safetensors.torch import load_file
from transformers import Qwen2TokenizerFast, Qwen3VLConfig, Qwen3VLForConditionalGeneration

import processor_time

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}

# Names inside a residual block, a stage and the whole autoencoder: diffusers has words where the file has numbers.
VAE_BLOCK = {
    "norm1": "residual.0",
    "conv1": "residual.2",
    "norm2": "residual.3",
    "conv2": "residual.6",
    "conv_shortcut": "shortcut",
}
VAE_PLACES = [
    (r"^quant_conv\.", "conv1."),
    (r"^post_quant_conv\.", "conv2."),
    (r"\.conv_in\.", ".conv1."),
    (r"\.norm_out\.", ".head.0."),
    (r"\.conv_out\.", ".head.2."),
    (r"\.mid_block\.attentions\.0\.", ".middle.1."),
    (r"\.mid_block\.resnets\.0\.", ".middle.0."),
    (r"\.mid_block\.resnets\.1\.", ".middle.2."),
    (r"\.down_blocks\.(\d)\.resnets\.(\d)\.", r".downsamples.\1.downsamples.\2."),
    (r"\.up_blocks\.(\d)\.resnets\.(\d)\.", r".upsamples.\1.upsamples.\2."),
    (r"\.down_blocks\.(\d)\.downsampler\.", r".downsamples.\1.downsamples.2."),
    (r"\.up_blocks\.(\d)\.upsampler\.", r".upsamples.\1.upsamples.3."),
]


def dequantized(path):
    """All tensors of a file as float32, FP8 times its scale."""
    stored = load_file(path)
    return {
        name: tensor.float() * stored[name + "_scale"] if name + "_scale" in stored else tensor.float()
        for name, tensor in stored.items()
        if not name.endswith((".weight_scale", ".comfy_quant"))
    }


def load_transformer(path, size):
    model = QwenImage21Transformer2DModel(
        num_layers=size["layers"],
        attention_head_dim=size["head_dim"],
        num_attention_heads=size["heads"],
        context_in_dim=size["text_width"],
        mlp_ratio=size["mlp"] // size["hidden"],
        axes_dims_rope=tuple(size["rope_axes"]),
    )
    state = dequantized(path)
    for name in [name for name in state if ".gate_up." in name]:  # two matrices of diffusers in one
        gate, up = state.pop(name).chunk(2)
        state[name.replace(".gate_up.", ".gate_layer.")] = gate
        state[name.replace(".gate_up.", ".proj.")] = up
    model.load_state_dict(state)
    return model


def load_text_encoder(path, size, tokenizer):
    text = dict(
        vocab_size=size["vocab"],
        hidden_size=size["hidden"],
        intermediate_size=size["mlp"],
        num_hidden_layers=size["layers"],
        num_attention_heads=size["heads"],
        num_key_value_heads=size["kv_heads"],
        head_dim=size["head_dim"],
        rms_norm_eps=size["rms_norm_eps"],
        rope_parameters=dict(
            rope_type="default",
            rope_theta=size["rope_theta"],
            mrope_section=size["mrope_section"],
            mrope_interleaved=True,
        ),
    )
    # The class wants a vision tower; the smallest that it accepts is never called.
    vision = dict(
        depth=1,
        hidden_size=32,
        intermediate_size=32,
        num_heads=2,
        out_hidden_size=size["hidden"],
        num_position_embeddings=16,
        deepstack_visual_indexes=[0],
    )
    marks = {
        "image_token_id": "<|image_pad|>",
        "video_token_id": "<|video_pad|>",
        "vision_start_token_id": "<|vision_start|>",
        "vision_end_token_id": "<|vision_end|>",
    }
    ids = {name: tokenizer.convert_tokens_to_ids(mark) for name, mark in marks.items()}
    model = Qwen3VLForConditionalGeneration(
        Qwen3VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=False, **ids)
    )
    state = {name.removeprefix("model."): tensor for name, tensor in dequantized(path).items()}
    model.model.language_model.load_state_dict(state)
    return model


def vae_file_name(name):
    """The name in the file of a tensor of diffusers' class."""
    for pattern, place in VAE_PLACES:
        name = re.sub(pattern, place, name)
    parts = "|".join(VAE_BLOCK)
    return re.sub(rf"((?:samples|middle)\.\d)\.({parts})\.", lambda at: f"{at[1]}.{VAE_BLOCK[at[2]]}.", name)


def load_vae(path, size):
    model = AutoencoderKLQwenImage21(
        base_dim=size["base_dim"],
        decoder_base_dim=size["decoder_base_dim"],
        z_dim=size["z"],
        dim_mult=size["dim_mult"],
        num_res_blocks=size["num_res_blocks"],
        temperal_downsample=[False, True, True, True],
    )
    stored = load_file(path)
    wanted = model.state_dict()
    state = {name: stored.pop(vae_file_name(name)).float().reshape(tensor.shape) for name, tensor in wanted.items()}
    if stored:
        sys.exit(f"peer: tensors without a place: {', '.join(stored)}")
    model.load_state_dict(state)
    return model


class TextProcessor:
    """The half of Qwen3VLProcessor that reads text; the other half needs torchvision, and no picture is read here."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def apply_chat_template(self, messages, **options):
        return [self.tokenizer.apply_chat_template(messages, **options)]

    def __call__(self, text, **options):
        return self.tokenizer(text, **options)


class Painter:
    """One pipeline in one precision. Calls of encode_prompt and of the step callback mark the time."""

    def __init__(self, folder, model, precision):
        files, sizes = model["files"]["fp8_scaled"], model["dimensions"]
        tokenizer = Qwen2TokenizerFast.from_pretrained(f"{folder}/{model['files']['tokenizer']}")
        self.pipe = QwenImage21Pipeline(
            scheduler=FlowMatchEulerDiscreteScheduler(shift=1.0),
            vae=load_vae(f"{folder}/{files['vae']}", sizes["vae"]).eval(),
            text_encoder=load_text_encoder(
                f"{folder}/{files['text_encoder']}", sizes["text_encoder"], tokenizer
            ).eval(),
            processor=TextProcessor(tokenizer),
            transformer=load_transformer(
                f"{folder}/{files['diffusion_model']}", sizes["diffusion_model"]
            ).eval(),
            sample_sigmas=model["sampling"]["sigmas"][:-1],
        )
        self.pipe.to(PRECISIONS[precision])
        self.pipe.vae.to(memory_format=torch.channels_last)
        self.pipe.set_progress_bar_config(disable=True)
        self.width, self.height = model["sampling"]["width"], model["sampling"]["height"]
        self.channels = sizes["vae"]["z"]
        self.cells = self.height // sizes["vae"]["spatial_factor"], self.width // sizes["vae"]["spatial_factor"]
        self.encode_prompt = self.pipe.encode_prompt
        self.pipe.encode_prompt = self.encode_and_mark
        self.pixels = None

    def encode_and_mark(self, *args, **options):
        encoded = self.encode_prompt(*args, **options)
        self.encoded_at = time.perf_counter()
        return encoded

    def mark_step(self, pipe, index, timestep, tensors):
        self.stepped_at = time.perf_counter()
        return {}

    @torch.inference_mode()
    def draw(self, prompt, seed):
        cpu, start = processor_time.used(), time.perf_counter()
        # Always float32, so that every precision starts from the same numbers.
        noise = torch.randn(1, 1, self.channels, *self.cells, generator=torch.Generator().manual_seed(seed))
        image = self.pipe(
            prompt,
            true_cfg_scale=1.0,
            height=self.height,
            width=self.width,
            latents=noise.view(1, self.channels, -1).transpose(1, 2),
            output_type="pt",
            callback_on_step_end=self.mark_step,
        ).images
        self.pixels = image[0].float().permute(1, 2, 0).mul(255).round().to(torch.uint8).numpy()
        end = time.perf_counter()
        return {
            "seconds": end - start,
            "encode": self.encoded_at - start,
            "diffuse": self.stepped_at - self.encoded_at,
            "decode": end - self.stepped_at,
            "cpu": processor_time.used() - cpu,
        }

    def psnr(self, path):
        theirs = np.asarray(Image.open(path)).astype(float)
        if theirs.shape != self.pixels.shape:
            return 0.0
        error = np.square(theirs - self.pixels).mean()
        return float(10 * np.log10(255**2 / error)) if error else None  # None: equal


def about(model):
    return {
        "steps": len(model["sampling"]["sigmas"]) - 1,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "diffusers": diffusers.__version__,
        "transformers": transformers.__version__,
        "kernels": torch.backends.cpu.get_cpu_capability(),
        "onednn": torch.backends.mkldnn.is_available(),
    }


def main(folder):
    with open(f"{folder}/model.json", encoding="utf-8") as file:
        model = json.load(file)
    painters = {precision: Painter(folder, model, precision) for precision in PRECISIONS}
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["do"] == "about":
            answer = about(model)
        elif asked["do"] == "draw":
            torch.set_num_threads(asked["threads"])
            answer = painters[asked["precision"]].draw(asked["prompt"], asked["seed"])
            answer["peak_rss"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        else:
            answer = {"psnr": painters[asked["precision"]].psnr(asked["file"])}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
