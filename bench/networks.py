"""Which tensors the networks have, under the names and in the shapes of the published single files.

A network is a function of its number of layers that yields its tensors; NETWORKS at the end has them all, with the
formats in which people have their files.
"""

import enum
import math
from typing import NamedTuple

CLOCK = 256  # numbers of a timestep
VOCABULARY = 151936  # rows of Qwen3's table, more than there are tokens


class Kind(enum.Enum):
    BLOCK = "a matrix that every quantised file compresses"
    TABLE = "an embedding or head: compressed by GGUF and INT8, left alone by FP8"
    PLAIN = "a matrix or kernel that quantised files leave alone"
    NORM = "a vector of numbers about 1"
    SMALL = "numbers about 0: biases, norms that are stored zero-centred, tables of modulation"


class Tensor(NamedTuple):
    name: str
    shape: tuple
    kind: Kind

    @property
    def fan_in(self):
        """How many numbers are summed for one of the result. Of a kernel over time one picture meets one moment."""
        within = self.shape[1:]
        return math.prod(within[:1] + within[2:] if len(within) == 4 else within)


def block(name, out, width):
    yield Tensor(f"{name}.weight", (out, width), Kind.BLOCK)


def table(name, out, width):
    yield Tensor(f"{name}.weight", (out, width), Kind.TABLE)


def plain(name, out, *within):
    yield Tensor(f"{name}.weight", (out, *within), Kind.PLAIN)


def norm(name, *shape):
    yield Tensor(name, shape, Kind.NORM)


def small(name, *shape):
    yield Tensor(name, shape, Kind.SMALL)


def biased(make, name, out, *within):
    yield from make(name, out, *within)
    yield from small(f"{name}.bias", out)


def layer_norm(name, width):
    yield from norm(f"{name}.weight", width)
    yield from small(f"{name}.bias", width)


# Diffusion models


def z_image_block(at, dim, mlp, is_modulated):
    yield from block(f"{at}.attention.qkv", 3 * dim, dim)
    yield from block(f"{at}.attention.out", dim, dim)
    for name in ("q_norm", "k_norm"):
        yield from norm(f"{at}.attention.{name}.weight", 128)
    for name in ("attention_norm1", "attention_norm2", "ffn_norm1", "ffn_norm2"):
        yield from norm(f"{at}.{name}.weight", dim)
    for name in ("w1", "w3"):
        yield from block(f"{at}.feed_forward.{name}", mlp, dim)
    yield from block(f"{at}.feed_forward.w2", dim, mlp)
    if is_modulated:
        yield from biased(plain, f"{at}.adaLN_modulation.0", 4 * dim, CLOCK)


def z_image(layers):
    dim, mlp, patch = 3840, 10240, 64
    yield from biased(plain, "x_embedder", dim, patch)
    yield from norm("cap_embedder.0.weight", 2560)
    yield from biased(plain, "cap_embedder.1", dim, 2560)
    yield from biased(plain, "t_embedder.mlp.0", 1024, CLOCK)
    yield from biased(plain, "t_embedder.mlp.2", CLOCK, 1024)
    for name in ("x_pad_token", "cap_pad_token"):
        yield from small(name, 1, dim)
    for i in range(2):
        yield from z_image_block(f"noise_refiner.{i}", dim, mlp, True)
        yield from z_image_block(f"context_refiner.{i}", dim, mlp, False)
    for i in range(layers):
        yield from z_image_block(f"layers.{i}", dim, mlp, True)
    yield from biased(plain, "final_layer.linear", patch, dim)
    yield from biased(plain, "final_layer.adaLN_modulation.1", dim, CLOCK)


def krea2_block(at, dim, kv, mlp):
    for name in ("wq", "gate", "wo"):
        yield from block(f"{at}.attn.{name}", dim, dim)
    for name in ("wk", "wv"):
        yield from block(f"{at}.attn.{name}", kv, dim)
    for name in ("qnorm", "knorm"):
        yield from small(f"{at}.attn.qknorm.{name}.scale", 128)
    for name in ("prenorm", "postnorm"):
        yield from small(f"{at}.{name}.scale", dim)
    for name in ("gate", "up"):
        yield from block(f"{at}.mlp.{name}", mlp, dim)
    yield from block(f"{at}.mlp.down", dim, mlp)


def krea2(layers):
    dim, text, patch, taps = 6144, 2560, 64, 12
    yield from biased(plain, "first", dim, patch)
    yield from biased(plain, "tmlp.0", dim, CLOCK)
    yield from biased(plain, "tmlp.2", dim, dim)
    yield from biased(plain, "tproj.1", 6 * dim, dim)
    yield from plain("txtfusion.projector", 1, taps)
    for stack in ("layerwise_blocks", "refiner_blocks"):
        for i in range(2):
            yield from krea2_block(f"txtfusion.{stack}.{i}", text, text, 6912)
    yield from small("txtmlp.0.scale", text)
    yield from biased(plain, "txtmlp.1", dim, text)
    yield from biased(plain, "txtmlp.3", dim, dim)
    for i in range(layers):
        yield from krea2_block(f"blocks.{i}", dim, 1536, 16384)
        yield from small(f"blocks.{i}.mod.lin", 6 * dim)
    yield from small("last.modulation.lin", 2, dim)
    yield from small("last.norm.scale", dim)
    yield from biased(plain, "last.linear", patch, dim)


def qwen_image_21(layers):
    dim, mlp, channels = 4096, 12288, 64
    yield from plain("img_in", dim, channels)
    yield from small("txt_in.text_norm.weight", dim)
    for name in ("in_layer", "out_layer"):
        yield from plain(f"txt_in.{name}", dim, dim)
    yield from plain("time_text_embed.timestep_embedder.linear_1", dim, CLOCK)
    yield from plain("time_text_embed.timestep_embedder.linear_2", dim, dim)
    yield from plain("modulation.1", 4 * dim, dim)
    for i in range(layers):
        at = f"transformer_blocks.{i}"
        for name in ("to_q", "to_k", "to_v", "to_out.0"):
            yield from block(f"{at}.attn.{name}", dim, dim)
        for name in ("norm_q", "norm_k"):
            yield from norm(f"{at}.attn.{name}.weight", 128)
        yield from block(f"{at}.img_mlp.gate_up", 2 * mlp, dim)
        yield from block(f"{at}.img_mlp.out", dim, mlp)
    yield from plain("norm_out.linear", dim, dim)
    yield from plain("proj_out", channels, dim)


def qwen_image(layers):
    """Up to 2512. Its published FP8 file casts every matrix."""
    dim, text, patch = 3072, 3584, 64
    yield from biased(block, "img_in", dim, patch)
    yield from norm("txt_norm.weight", text)
    yield from biased(block, "txt_in", dim, text)
    yield from biased(block, "time_text_embed.timestep_embedder.linear_1", dim, CLOCK)
    yield from biased(block, "time_text_embed.timestep_embedder.linear_2", dim, dim)
    for i in range(layers):
        at = f"transformer_blocks.{i}"
        for name in ("to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj", "add_v_proj", "to_add_out"):
            yield from biased(block, f"{at}.attn.{name}", dim, dim)
        for name in ("norm_q", "norm_k", "norm_added_q", "norm_added_k"):
            yield from norm(f"{at}.attn.{name}.weight", 128)
        for stream in ("img", "txt"):
            yield from biased(block, f"{at}.{stream}_mod.1", 6 * dim, dim)
            yield from biased(block, f"{at}.{stream}_mlp.net.0.proj", 4 * dim, dim)
            yield from biased(block, f"{at}.{stream}_mlp.net.2", dim, 4 * dim)
    yield from biased(block, "norm_out.linear", 2 * dim, dim)
    yield from biased(block, "proj_out", patch, dim)


# Text encoders, those of the VL models with their vision tower in the same file


def qwen_mlp(make, at, width, mlp):
    for name in ("gate_proj", "up_proj"):
        yield from make(f"{at}.mlp.{name}", mlp, width)
    yield from make(f"{at}.mlp.down_proj", width, mlp)


def qwen3_text(layers, width, mlp):
    queries, keys, head = 4096, 1024, 128
    yield from table("model.embed_tokens", VOCABULARY, width)
    for i in range(layers):
        at = f"model.layers.{i}"
        yield from norm(f"{at}.input_layernorm.weight", width)
        yield from block(f"{at}.self_attn.q_proj", queries, width)
        for name in ("k_proj", "v_proj"):
            yield from block(f"{at}.self_attn.{name}", keys, width)
        yield from block(f"{at}.self_attn.o_proj", width, queries)
        for name in ("q_norm", "k_norm"):
            yield from norm(f"{at}.self_attn.{name}.weight", head)
        yield from norm(f"{at}.post_attention_layernorm.weight", width)
        yield from qwen_mlp(block, at, width, mlp)
    yield from norm("model.norm.weight", width)


def qwen3_merger(at, width, norm_width, out):
    merged = 4 * width
    yield from layer_norm(f"{at}.norm", norm_width)
    yield from biased(plain, f"{at}.linear_fc1", merged, merged)
    yield from biased(plain, f"{at}.linear_fc2", out, merged)


def qwen3_vision(depth, width, mlp, out):
    yield from biased(plain, "visual.patch_embed.proj", width, 3, 2, 16, 16)
    yield from plain("visual.pos_embed", 48 * 48, width)
    for i in range(depth):
        at = f"visual.blocks.{i}"
        for name in ("norm1", "norm2"):
            yield from layer_norm(f"{at}.{name}", width)
        yield from biased(plain, f"{at}.attn.qkv", 3 * width, width)
        yield from biased(plain, f"{at}.attn.proj", width, width)
        yield from biased(plain, f"{at}.mlp.linear_fc1", mlp, width)
        yield from biased(plain, f"{at}.mlp.linear_fc2", width, mlp)
    yield from qwen3_merger("visual.merger", width, width, out)
    for i in range(3):
        yield from qwen3_merger(f"visual.deepstack_merger_list.{i}", width, 4 * width, out)


def qwen3_4b(layers):
    yield from qwen3_text(layers, 2560, 9728)


def qwen3_4b_facts(layers):
    facts = {
        "block_count": layers,
        "context_length": 40960,
        "embedding_length": 2560,
        "feed_forward_length": 9728,
        "attention.head_count": 32,
        "attention.head_count_kv": 8,
        "attention.key_length": 128,
        "attention.value_length": 128,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.freq_base": 1e6,
        "vocab_size": VOCABULARY,
    }
    return {f"qwen3.{name}": value for name, value in facts.items()}


def qwen3_vl_4b(layers):
    yield from qwen3_text(layers, 2560, 9728)
    yield from qwen3_vision(24, 1024, 4096, 2560)


def qwen3_vl_8b(layers):
    yield from qwen3_text(layers, 4096, 12288)
    yield from table("lm_head", VOCABULARY, 4096)
    yield from qwen3_vision(27, 1152, 4304, 4096)


def qwen25_vision():
    width, mlp, out = 1280, 3420, 3584
    yield from plain("visual.patch_embed.proj", width, 3, 2, 14, 14)
    for i in range(32):
        at = f"visual.blocks.{i}"
        for name in ("norm1", "norm2"):
            yield from norm(f"{at}.{name}.weight", width)
        yield from biased(plain, f"{at}.attn.qkv", 3 * width, width)
        yield from biased(plain, f"{at}.attn.proj", width, width)
        yield from qwen_mlp(lambda *layer: biased(plain, *layer), at, width, mlp)
    yield from norm("visual.merger.ln_q.weight", width)
    yield from biased(plain, "visual.merger.mlp.0", 4 * width, 4 * width)
    yield from biased(plain, "visual.merger.mlp.2", out, 4 * width)


def qwen25_vl_7b(layers):
    width, keys, vocabulary = 3584, 512, 152064
    yield from table("model.embed_tokens", vocabulary, width)
    for i in range(layers):
        at = f"model.layers.{i}"
        yield from norm(f"{at}.input_layernorm.weight", width)
        yield from biased(block, f"{at}.self_attn.q_proj", width, width)
        for name in ("k_proj", "v_proj"):
            yield from biased(block, f"{at}.self_attn.{name}", keys, width)
        yield from block(f"{at}.self_attn.o_proj", width, width)
        yield from norm(f"{at}.post_attention_layernorm.weight", width)
        yield from qwen_mlp(block, at, width, 18944)
    yield from norm("model.norm.weight", width)
    yield from table("lm_head", vocabulary, width)
    yield from qwen25_vision()


# Autoencoders


def flux_residual(at, before, after):
    for i, width in ((1, before), (2, after)):
        yield from layer_norm(f"{at}.norm{i}", width)
        yield from biased(plain, f"{at}.conv{i}", after, width, 3, 3)
    if before != after:
        yield from biased(plain, f"{at}.nin_shortcut", after, before, 1, 1)


def flux_half(half, ends, levels, blocks, change):
    """ends: channels that come in and go out. levels: (number, width) in the order in which they are run."""
    first, last = levels[0][1], levels[-1][1]
    yield from biased(plain, f"{half}.conv_in", first, ends[0], 3, 3)
    at, middle = f"{half}.mid", last if half == "encoder" else first
    for i in (1, 2):
        yield from flux_residual(f"{at}.block_{i}", middle, middle)
    yield from layer_norm(f"{at}.attn_1.norm", middle)
    for name in ("q", "k", "v", "proj_out"):
        yield from biased(plain, f"{at}.attn_1.{name}", middle, middle, 1, 1)
    before = first
    for number, width in levels:
        stage = f"{half}.{change}.{number}"
        for i in range(blocks):
            yield from flux_residual(f"{stage}.block.{i}", before, width)
            before = width
        if number != levels[-1][0]:
            yield from biased(plain, f"{stage}.{change}sample.conv", width, width, 3, 3)
    yield from layer_norm(f"{half}.norm_out", last)
    yield from biased(plain, f"{half}.conv_out", ends[1], last, 3, 3)


def flux_ae(_):
    levels = list(enumerate((128, 256, 512, 512)))
    yield from flux_half("encoder", (3, 32), levels, 2, "down")
    yield from flux_half("decoder", (16, 3), levels[::-1], 3, "up")


def wan_residual(at, before, after, time):
    for i, width in ((0, before), (3, after)):
        yield from norm(f"{at}.residual.{i}.gamma", width, 1, 1, 1)
        # The second kernel is number 6 since a dropout stands between them.
        yield from biased(plain, f"{at}.residual.{2 * i or 2}", after, width, time, 3, 3)
    if before != after:
        yield from biased(plain, f"{at}.shortcut", after, before, 1, 1, 1)


def wan_middle(half, width, time):
    for i in (0, 2):
        yield from wan_residual(f"{half}.middle.{i}", width, width, time)
    yield from norm(f"{half}.middle.1.norm.gamma", width, 1, 1)
    yield from biased(plain, f"{half}.middle.1.to_qkv", 3 * width, width, 1, 1)
    yield from biased(plain, f"{half}.middle.1.proj", width, width, 1, 1)


def wan_ends(half, ends, widths, time):
    yield from biased(plain, f"{half}.conv1", widths[0], ends[0], time, 3, 3)
    yield from norm(f"{half}.head.0.gamma", widths[1], 1, 1, 1)
    yield from biased(plain, f"{half}.head.2", ends[1], widths[1], time, 3, 3)


def wan_resample(at, before, after, time_out, time):
    """time_out: channels of the kernel over time, 0 where the resolution in time stays."""
    yield from biased(plain, f"{at}.resample.1", after, before, 3, 3)
    if time_out:
        yield from biased(plain, f"{at}.time_conv", time_out, before, time, 1, 1)


def qwen_image_vae(_):
    """Wan 2.1's: residual blocks and resampling numbered in one row."""
    latent, time = 16, 3
    yield from biased(plain, "conv1", 2 * latent, 2 * latent, 1, 1, 1)
    yield from biased(plain, "conv2", latent, latent, 1, 1, 1)
    yield from wan_ends("encoder", (3, 2 * latent), (96, 384), time)
    yield from wan_middle("encoder", 384, time)
    before, number = 96, 0
    for level, width in enumerate((96, 192, 384, 384)):
        for _ in range(2):
            yield from wan_residual(f"encoder.downsamples.{number}", before, width, time)
            before, number = width, number + 1
        if level < 3:
            yield from wan_resample(f"encoder.downsamples.{number}", width, width, width if level else 0, time)
            number += 1
    yield from wan_ends("decoder", (latent, 3), (384, 96), time)
    yield from wan_middle("decoder", 384, time)
    before, number = 384, 0
    for level, width in enumerate((384, 384, 192, 96)):
        for _ in range(3):
            yield from wan_residual(f"decoder.upsamples.{number}", before, width, time)
            before, number = width, number + 1
        if level < 3:
            yield from wan_resample(f"decoder.upsamples.{number}", width, width // 2, 2 * width if level < 2 else 0,
                                    time)
            before, number = width // 2, number + 1


def qwen_image_21_vae(_):
    """Wan 2.2's form: levels of blocks, and kernels over a single moment."""
    latent, time = 64, 1
    encoder, decoder = (96, 192, 384, 768, 768), (1152, 1152, 576, 288, 144)
    yield from biased(plain, "conv1", 2 * latent, 2 * latent, 1, 1, 1)
    yield from biased(plain, "conv2", latent, latent, 1, 1, 1)
    yield from wan_ends("encoder", (4, 2 * latent), (encoder[0], encoder[-1]), time)
    yield from wan_middle("encoder", encoder[-1], time)
    yield from wan_ends("decoder", (latent, 4), (decoder[0], decoder[-1]), time)
    yield from wan_middle("decoder", decoder[0], time)
    for half, widths, blocks, change in (("encoder", encoder, 2, "down"), ("decoder", decoder, 3, "up")):
        before = widths[0]
        for level, width in enumerate(widths):
            at = f"{half}.{change}samples.{level}.{change}samples"
            for i in range(blocks):
                yield from wan_residual(f"{at}.{i}", before, width, time)
                before = width
            if level < 4:
                in_time = level > 0 if half == "encoder" else level < 3
                time_out = width * (1 if half == "encoder" else 2)
                yield from wan_resample(f"{at}.{blocks}", width, width, time_out if in_time else 0, time)


def rrdb(blocks):
    """Real-ESRGAN x4, under the names that it came with."""
    width, growth = 64, 32
    yield from biased(plain, "conv_first", width, 3, 3, 3)
    for i in range(blocks):
        for d in range(1, 4):
            for c in range(5):
                out = width if c == 4 else growth
                yield from biased(plain, f"body.{i}.rdb{d}.conv{c + 1}", out, width + c * growth, 3, 3)
    for name in ("conv_body", "conv_up1", "conv_up2", "conv_hr"):
        yield from biased(plain, name, width, width, 3, 3)
    yield from biased(plain, "conv_last", 3, width, 3, 3)


class Network(NamedTuple):
    tensors: object  # a function of the number of layers
    layers: int  # as published; 0: there is no stack whose height could be chosen
    formats: tuple
    marks: str = "comfy_quant"  # how FP8 files say what is quantised
    architecture: str = ""  # what GGUF files call it
    facts: object = lambda layers: {}  # what else they say of it, as llama.cpp wants it


COMPRESSED = ("bf16", "fp8", "int8", "q8_0", "q4_k")

NETWORKS = {
    "z-image": Network(z_image, 30, ("bf16", "fp8", "q8_0", "q4_k"), architecture="lumina2"),
    "krea2": Network(krea2, 28, ("bf16", "fp8"), marks="header"),
    "qwen-image-2.1": Network(qwen_image_21, 32, COMPRESSED, architecture="qwen_image"),
    "qwen-image": Network(qwen_image, 60, ("bf16", "fp8", "q8_0", "q4_k"), marks="none", architecture="qwen_image"),
    "qwen3-4b": Network(qwen3_4b, 36, ("bf16", "fp8", "q8_0", "q4_k"), architecture="qwen3", facts=qwen3_4b_facts),
    "qwen3-vl-4b": Network(qwen3_vl_4b, 36, ("bf16", "fp8", "q8_0", "q4_k"), architecture="qwen3vl"),
    "qwen3-vl-8b": Network(qwen3_vl_8b, 36, COMPRESSED, architecture="qwen3vl"),
    "qwen2.5-vl-7b": Network(qwen25_vl_7b, 28, ("bf16", "fp8"), marks="scaled_fp8"),
    "flux-ae": Network(flux_ae, 0, ("bf16",)),
    "qwen-image-vae": Network(qwen_image_vae, 0, ("bf16",)),
    "qwen-image-2.1-vae": Network(qwen_image_21_vae, 0, ("bf16",)),
    "rrdb": Network(rrdb, 23, ("bf16",)),
}
