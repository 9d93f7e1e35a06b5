"""Helpers shared by the qwen_*.py generators: random weights, file writing, a tiny tokenizer, name conversion."""

import json
import os
import re

import numpy as np
import torch
from safetensors.torch import save_file

torch.set_grad_enabled(False)
torch.set_num_threads(1)


def randomise(module, seed, gain=1.0):
    """Deterministic weights on the bf16 grid: matrices ~ N(0, gain/fan_in), norm scales ~ 1, biases small."""
    gen = torch.Generator().manual_seed(seed)
    for name, p in module.named_parameters():
        noise = torch.randn(p.shape, generator=gen)
        if name.endswith("text_norm.weight"):
            value = 0.1 * noise
        elif p.ndim == 1 or name.endswith("gamma"):
            value = 1 + 0.1 * noise if name.endswith(("weight", "gamma", "scale")) else 0.1 * noise
        elif "embed_tokens" in name or "pos_embed" in name:
            value = 0.5 * noise
        else:
            value = noise * (gain / np.prod(p.shape[1:])) ** 0.5
        p.copy_(value.to(torch.bfloat16).float())
    return module.eval().float()


def tensors(path, table, dtype=None):
    out = {}
    for k, v in table.items():
        v = v.detach().cpu().contiguous().clone() if torch.is_tensor(v) else torch.from_numpy(np.ascontiguousarray(v))
        out[k] = v.to(dtype) if dtype and v.is_floating_point() else v
    os.makedirs(os.path.dirname(path), exist_ok=True)
    save_file(out, path)
    os.chmod(path, 0o644)


def case(folder, **fields):
    os.makedirs(folder, exist_ok=True)
    fields.setdefault("tolerance", {"rel_l2": 1e-4})
    with open(os.path.join(folder, "case.json"), "w") as f:
        json.dump(fields, f, indent=1, ensure_ascii=False, sort_keys=True)
        f.write("\n")


def taps(modules):
    """Record the (first) output of each named module: {name: tensor}, in call order."""
    found, handles = {}, []
    for name, module in modules.items():

        def hook(_, __, out, name=name):
            found[name] = (out[0] if isinstance(out, tuple) else out).detach().clone()

        handles.append(module.register_forward_hook(hook))
    return found, handles


def dit21_to_comfy(state):
    """diffusers -> single-file naming: gate_layer and proj become one gate_up, gate rows first."""
    out = {}
    for k, v in state.items():
        if k.endswith("img_mlp.gate_layer.weight"):
            out[k.replace("gate_layer", "gate_up")] = torch.cat([v, state[k.replace("gate_layer", "proj")]])
        elif not k.endswith("img_mlp.proj.weight"):
            out[k] = v
    return out


def vae21_to_comfy(state):
    """diffusers -> Wan 2.2 style naming; causal convolutions get their temporal axis of one back."""
    out = {}
    for k, v in state.items():
        conv2d = ".resample." in k or ".to_qkv." in k or ".proj." in k
        n = k.replace("post_quant_conv", "conv2").replace("quant_conv", "conv1")
        n = n.replace(".conv_in.", ".conv1.").replace(".conv_out.", ".head.2.").replace(".norm_out.", ".head.0.")
        n = (
            n.replace("mid_block.resnets.0", "middle.0")
            .replace("mid_block.resnets.1", "middle.2")
            .replace("mid_block.attentions.0", "middle.1")
        )
        n = re.sub(r"down_blocks\.(\d+)\.resnets\.", r"downsamples.\1.downsamples.", n)
        n = re.sub(r"up_blocks\.(\d+)\.resnets\.", r"upsamples.\1.upsamples.", n)
        n = re.sub(r"down_blocks\.(\d+)\.downsampler", r"downsamples.\1.downsamples.2", n)
        n = re.sub(r"up_blocks\.(\d+)\.upsampler", r"upsamples.\1.upsamples.3", n)
        if (
            re.search(r"(downsamples\.\d+\.downsamples|upsamples\.\d+\.upsamples|middle)\.\d+\.(norm|conv)", n)
            and "middle.1" not in n
        ):
            for old, new in (
                ("norm1", "residual.0"),
                ("conv1", "residual.2"),
                ("norm2", "residual.3"),
                ("conv2", "residual.6"),
                ("conv_shortcut", "shortcut"),
            ):
                n = n.replace("." + old + ".", "." + new + ".")
        out[n] = v.unsqueeze(2) if v.ndim == 4 and not conv2d and n.endswith(".weight") else v
    return out


SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CORPUS = [
    "system user assistant Comprehend and analyze the provided prompt.",
    (
        "Describe the image by detailing the color, shape, size, texture, "
        "quantity, text, spatial relationships of the objects and background:"
    ),
    "a red boat on a quiet lake at dawn, soft light",
    "replace the hat with a green one and keep the background",
    "image image image the the and with quiet light green stone bridge over the river",
]
CHAT = (
    "{% for m in messages %}{{'<|im_start|>' + m['role'] + '\n'}}{% for c in m['content'] %}{{ c['text'] }}{% endfor"
    " %}{{'<|im_end|>\n'}}{% endfor %}"
)


def tiny_tokenizer(merges=160):
    """Byte-level BPE with the Qwen2 split pattern and the Qwen special tokens behind a small trained vocabulary."""
    from tokenizers import AddedToken, Tokenizer, Regex, models, pre_tokenizers, decoders, trainers, normalizers
    from transformers import PreTrainedTokenizerFast

    tok = Tokenizer(models.BPE())
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(
            vocab_size=256 + merges, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False
        ),
    )
    tok.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in SPECIAL])
    return PreTrainedTokenizerFast(
        tokenizer_object=tok, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=CHAT
    )


def picture(width, height, seed, mode="RGB"):
    """A smooth random test picture (PIL)."""
    from PIL import Image

    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    channels = len(mode)
    out = np.zeros((height, width, channels))
    for c in range(channels):
        a, b, p = rng.uniform(0.05, 0.35, 3)
        out[..., c] = 127 + 80 * np.sin(a * x + 6 * p) * np.cos(b * y - 3 * p) + rng.normal(0, 12, (height, width))
    out = np.clip(np.rint(out), 0, 255).astype(np.uint8)
    return Image.fromarray(out if channels > 1 else out[..., 0])
