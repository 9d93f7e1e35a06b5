"""Whole runs of Qwen-Image 2.1: from text, Turbo, editing with two references; also from INT8 and GGUF weights."""

import copy
import json
import os

import gguf
import inpaint
import numpy as np
import torch
import qwen21_vae
import qwen_vl
from diffusers import QwenImage21Pipeline, FlowMatchEulerDiscreteScheduler, QwenImage21Transformer2DModel
from qwen_common import case, dit21_to_comfy, picture, randomise, tensors, vae21_to_comfy

BASE = dict(
    base_image_seq_len=256,
    base_shift=0.5,
    max_image_seq_len=8192,
    max_shift=0.9,
    shift=1.0,
    shift_terminal=0.02,
    time_shift_type="exponential",
    use_dynamic_shifting=True,
)
TURBO = dict(shift=1.0, use_dynamic_shifting=False)
TURBO_SIGMAS = [1.0, 0.978453, 0.95418, 0.926626, 0.89508, 0.845148, 0.704534, 0.414568]


def components(seed, variant):
    tok = qwen_vl.tiny_tokenizer(160 - 40 * variant)
    text = qwen_vl.build3(
        seed, tok, **(dict(hidden=64, layers=3, depth=4, deepstack=(0, 1, 3), grid=8) if variant else {})
    )
    hidden = text.config.text_config.hidden_size
    dit = QwenImage21Transformer2DModel(
        num_layers=2 + variant,
        num_attention_heads=2,
        attention_head_dim=32,
        context_in_dim=hidden,
        axes_dims_rope=(4, 14, 14),
    )
    randomise(dit, seed + 1)
    vae, _ = qwen21_vae.build(seed + 2, variant)
    return tok, text, dit, vae


def generate(
    folder,
    parts,
    scheduler,
    sigmas,
    prompt,
    negative,
    cfg,
    references,
    width,
    height,
    steps,
    resolution,
    seed,
    weights,
    start=None,
    white=None,
    **extra,
):
    tok, text, dit, vae = parts
    pipe = QwenImage21Pipeline(
        FlowMatchEulerDiscreteScheduler(**scheduler), vae, text, qwen_vl.processor3(tok), dit, sample_sigmas=sigmas
    )
    pipe.set_progress_bar_config(disable=True)
    gen = torch.Generator().manual_seed(seed)
    noise = torch.randn(1, 64, height // 16, width // 16, generator=gen)
    latents = noise.flatten(2).transpose(1, 2).contiguous()
    log, expected = [], {}
    calls = []
    original = pipe._get_qwen_prompt_embeds

    def record(*a, **k):
        out = original(*a, **k)
        calls.append(out)
        return out

    pipe._get_qwen_prompt_embeds = record
    ids = []
    handle = text.model.register_forward_pre_hook(
        lambda m, a, k: ids.append(k["input_ids"][0].to(torch.int32)), with_kwargs=True
    )
    encoded = []
    encode = pipe._encode_vae_image

    def record_vae(image, generator):
        out = encode(image, generator)
        encoded.append(out[0, :, 0])
        return out

    pipe._encode_vae_image = record_vae

    clean = encode(pipe.image_processor.preprocess(start).unsqueeze(2), None)[0, :, 0] if start else None

    def step(p, i, t, k):
        latent = k["latents"][0].T.reshape(64, height // 16, width // 16).clone()
        if start:
            latent = inpaint.known(
                latent, inpaint.on_latent(white, *latent.shape[1:])[0], clean, noise[0], p.scheduler.sigmas[i + 1]
            )
        log.append(latent)
        return dict(latents=latent.flatten(1).T[None].contiguous())

    image = pipe(
        prompt=prompt,
        image=references or None,
        negative_prompt=negative if cfg > 1 else None,
        true_cfg_scale=cfg,
        height=height,
        width=width,
        num_inference_steps=steps,
        latents=latents,
        output_resolution=resolution,
        callback_on_step_end=step,
    ).images[0]
    handle.remove()
    for name, (embeds, _, slots), token_ids in zip(("positive", "negative"), calls, ids):
        expected[name + ".input_ids"] = token_ids
        expected[name + ".embeddings"] = embeds[0][~slots[0].bool()]
    for i, e in enumerate(encoded):
        expected[f"reference{i}.latents"] = e
    for i, l in enumerate(log):
        expected[f"step{i}.latents"] = l
    expected["sigmas"] = pipe.scheduler.sigmas
    expected["timesteps"] = pipe.scheduler.timesteps
    os.makedirs(folder, exist_ok=True)
    if start:
        expected["encoded"] = clean
        start.save(f"{folder}/input.png")
        white.save(f"{folder}/mask.png")
        image = inpaint.laid_over(start, image, white)
    image.save(f"{folder}/image.png")
    for i, r in enumerate(references):
        r.save(f"{folder}/reference{i}.png")
    tensors(f"{folder}/inputs.safetensors", {"noise": noise[0]})
    tensors(f"{folder}/expected.safetensors", expected)
    case(
        folder,
        component="qwen21-e2e",
        prompt=prompt,
        negative_prompt=negative if cfg > 1 else None,
        cfg=cfg,
        width=width,
        height=height,
        steps=len(log),
        seed=seed,
        references=len(references),
        reference_resolution=resolution,
        scheduler=scheduler,
        sample_sigmas=sigmas,
        weights=weights,
        tokenizer="../tokenizer.json",
        config=dict(qwen_vl.summary(text.config), transformer=dict(heads=2, axes_dims_rope=[4, 14, 14])),
        axes_dims_rope=[4, 14, 14],
        mode=image.mode,
        tolerance={"rel_l2": 1e-4, "rel_l2_last_step": 1e-3, "png_max_abs": 2, "png_mismatch_fraction": 0.01},
        **extra,
    )


# ---------------------------------------------------------------- INT8 ConvRot
class Int8Linear(torch.nn.Module):
    def __init__(self, linear, group):
        super().__init__()
        from comfy_kitchen.backends.eager.quantization import quantize_int8_convrot_weight

        self.q, self.s = quantize_int8_convrot_weight(linear.weight.data, group)
        self.group, self.bias = group, linear.bias

    def forward(self, x):
        from comfy_kitchen.backends.eager.quantization import int8_linear

        return int8_linear(x, self.q, self.s, self.bias, torch.float32, convrot=True, convrot_groupsize=self.group)


class Int8Embedding(torch.nn.Module):
    def __init__(self, table, group):
        super().__init__()
        from comfy_kitchen.backends.eager.quantization import quantize_int8_convrot_weight

        self.q, self.s = quantize_int8_convrot_weight(table.weight.data, group)
        self.group, self.padding_idx = group, None
        self.weight = table.weight

    def forward(self, ids):
        from comfy_kitchen.backends.eager.quantization import dequantize_int8_embedding

        return dequantize_int8_embedding(self.q, self.s, ids, self.group, 0)


def quantise_int8(model, select, group):
    """Replace selected modules; returns the extra tensors keyed by module name."""
    table = {}
    for name, module in list(model.named_modules()):
        if isinstance(module, (torch.nn.Linear, torch.nn.Embedding)) and select(name):
            new = (Int8Linear if isinstance(module, torch.nn.Linear) else Int8Embedding)(module, group)
            parent = model.get_submodule(name.rsplit(".", 1)[0])
            setattr(parent, name.rsplit(".", 1)[1], new)
            config = json.dumps({"format": "int8_tensorwise", "convrot": True, "convrot_groupsize": group}).encode()
            table[name] = (
                new.q,
                new.s.reshape(-1, 1).float(),
                torch.frombuffer(bytearray(config), dtype=torch.uint8).clone(),
            )
    return table


def int8_state(plain, table, rename=lambda n: n):
    out = {k: v.to(torch.bfloat16) for k, v in plain.items()}
    for name, (q, s, c) in table.items():
        n = rename(name)
        out[n + ".weight"], out[n + ".weight_scale"], out[n + ".comfy_quant"] = q, s, c
    return out


# ---------------------------------------------------------------- GGUF
def gguf_write(path, arch, state, choose, metadata=lambda w: None):
    """choose(name, tensor) -> GGML type; returns the dequantised values the file holds."""
    writer = gguf.GGUFWriter(path, arch)
    metadata(writer)
    held = {}
    for k, v in state.items():
        a = v.float().numpy().copy()
        kind = choose(k, a)
        if kind == gguf.GGMLQuantizationType.F32:
            writer.add_tensor(k, a)
            held[k] = v.float()
        else:
            q = gguf.quants.quantize(a, kind)
            writer.add_tensor(k, q, raw_dtype=kind)
            held[k] = torch.from_numpy(gguf.quants.dequantize(q, kind).reshape(a.shape).copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return held


def tokenizer_metadata(writer, tok):
    spec = json.loads(tok.backend_tokenizer.to_str())
    names = [tok.convert_ids_to_tokens(i) for i in range(len(tok))]
    special = {t["id"] for t in spec["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(names)
    writer.add_token_types([3 if i in special else 1 for i in range(len(names))])
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in spec["model"]["merges"]])
    writer.add_eos_token_id(tok.convert_tokens_to_ids("<|im_end|>"))
    writer.add_pad_token_id(tok.convert_tokens_to_ids("<|endoftext|>"))
    writer.add_add_bos_token(False)


def text_metadata(writer, config, tok, arch):
    c = config.text_config
    writer.add_block_count(c.num_hidden_layers)
    writer.add_context_length(c.max_position_embeddings)
    writer.add_embedding_length(c.hidden_size)
    writer.add_feed_forward_length(c.intermediate_size)
    writer.add_head_count(c.num_attention_heads)
    writer.add_head_count_kv(c.num_key_value_heads)
    writer.add_rope_freq_base(float(c.rope_parameters["rope_theta"]))
    writer.add_layer_norm_rms_eps(c.rms_norm_eps)
    head = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_rope_dimension_sections(list(c.rope_parameters["mrope_section"]) + [0])
    if hasattr(config.vision_config, "deepstack_visual_indexes"):
        writer.add_num_deepstack_layers(len(config.vision_config.deepstack_visual_indexes))
    tokenizer_metadata(writer, tok)


def tokenizer_cases(out, tok):
    """Prompts of the cases and what they become, for tests of the tokenizer alone."""
    prefix = f"<|im_start|>system\n{qwen_vl.SYSTEM21}<|im_end|>\n<|im_start|>user\n"
    suffix = "<|im_end|>\n<|im_start|>assistant\n"
    cases = []
    for name in ("t2i", "t2i-cfg", "turbo"):
        with open(f"{out}/qwen21-e2e/{name}/case.json") as f:
            request = json.load(f)
        for side, prompt in (("positive", request["prompt"]), ("negative", request["negative_prompt"])):
            if prompt is not None:
                cases.append(dict(case=f"{name}/{side}", prompt=prompt, ids=tok.encode(prefix + prompt + suffix)))
    folder = f"{out}/tokenizer-e2e"
    os.makedirs(folder, exist_ok=True)
    tok.backend_tokenizer.save(f"{folder}/tokenizer.json")
    with open(f"{folder}/cases.json", "w") as f:
        json.dump(dict(prefix=prefix, suffix=suffix, cases=cases), f, indent=1)


def main(seed, out, variant):
    v, root = variant, f"{out}/qwen21-e2e"
    parts = tok, text, dit, vae = components(seed, v)
    os.makedirs(root, exist_ok=True)
    tok.backend_tokenizer.save(f"{root}/tokenizer.json")
    with open(f"{root}/config.json", "w") as f:
        json.dump(qwen_vl.config_json(text.config), f, indent=1)
    tensors(
        f"{root}/transformer.safetensors",
        (
            {"model.diffusion_model." + k: t for k, t in dit21_to_comfy(dit.state_dict()).items()}
            if v
            else dit21_to_comfy(dit.state_dict())
        ),
        torch.bfloat16,
    )
    tensors(f"{root}/text_encoder.safetensors", qwen_vl.comfy_names(text.state_dict()), torch.bfloat16)
    tensors(f"{root}/vae.safetensors", vae21_to_comfy(vae.state_dict()), torch.bfloat16)
    files = dict(
        transformer="../transformer.safetensors", text_encoder="../text_encoder.safetensors", vae="../vae.safetensors"
    )
    prompt, edit = (
        ("a red boat on a quiet lake at dawn", "replace the hat in <image1> with the one of <image2>")
        if not v
        else ("green stone bridge, \u6c34\u9762", "put <image2> behind <image1>")
    )
    size = (64, 96) if not v else (96, 64)
    generate(f"{root}/t2i", parts, BASE, None, prompt, None, 1.0, [], *size, 5 + v, 1024, seed + 5, files)
    generate(
        f"{root}/t2i-cfg", parts, BASE, None, prompt, "blurry, low quality", 4.0, [], 64, 64, 3, 1024, seed + 6, files
    )
    generate(f"{root}/turbo", parts, TURBO, TURBO_SIGMAS, prompt, None, 1.0, [], 96, 64, 8, 1024, seed + 7, files)
    refs = (
        [picture(80, 56, seed + 8), picture(48, 96, seed + 9, "RGBA")]
        if not v
        else [picture(60, 60, seed + 8, "RGBA"), picture(100, 40, seed + 9)]
    )
    generate(
        f"{root}/edit",
        parts,
        BASE,
        None,
        edit,
        " ",
        4.0,
        refs,
        64,
        64,
        4 - v,
        64,
        seed + 10,
        files,
        note="references are resized with Lanczos to about 64*64 pixels at multiples of 32 (the product uses 1024)",
    )
    generate(
        f"{root}/inpaint",
        parts,
        BASE,
        None,
        prompt,
        "blurry, low quality",
        4.0,
        [],
        64,
        64,
        4 + v,
        64,
        seed + 12,
        files,
        start=picture(64, 64, seed + 13, "RGBA"),
        white=inpaint.blocks(64, 64, 16, np.random.default_rng(seed + 14)),
        strength=1.0,
        mask="mask.png",
        note="the known picture is put back after each step; on squares of 16 pixels every way to scale a mask is one",
    )
    generate(f"{root}/turbo-edit", parts, TURBO, TURBO_SIGMAS, edit, None, 1.0, refs, 32, 64, 8, 64, seed + 11, files)

    tokenizer_cases(out, tok)

    # the same text-to-image run with INT8 ConvRot weights
    plain_dit, plain_text = dit21_to_comfy(dit.state_dict()), qwen_vl.comfy_names(text.state_dict())
    q_dit, q_text = copy.deepcopy(dit), copy.deepcopy(text)
    for block in q_dit.transformer_blocks:  # fused gate_up, as the single file stores it
        block.img_mlp.gate_up = torch.nn.Linear(
            block.img_mlp.proj.in_features, 2 * block.img_mlp.proj.out_features, bias=False
        )
        block.img_mlp.gate_up.weight.data = torch.cat(
            [block.img_mlp.gate_layer.weight.data, block.img_mlp.proj.weight.data]
        )

        def forward(x, m=block.img_mlp):
            g, u = m.gate_up(x).chunk(2, -1)
            return m.out(torch.nn.functional.silu(g) * u)

        block.img_mlp.forward = forward
    t_dit = quantise_int8(
        q_dit,
        lambda n: n.startswith("transformer_blocks.") and not n.endswith(("img_mlp.proj", "img_mlp.gate_layer")),
        16,
    )
    t_text = quantise_int8(q_text, lambda n: "language_model.layers." in n or n.endswith("embed_tokens"), 16)
    tensors(f"{root}/transformer.int8_convrot.safetensors", int8_state(plain_dit, t_dit))
    tensors(
        f"{root}/text_encoder.int8_convrot.safetensors",
        int8_state(
            plain_text,
            t_text,
            lambda n: n.replace("model.language_model.", "model.").replace("model.visual.", "visual."),
        ),
    )
    generate(
        f"{root}/t2i-int8",
        (tok, q_text, q_dit, vae),
        BASE,
        None,
        prompt,
        None,
        1.0,
        [],
        *size,
        3,
        1024,
        seed + 5,
        dict(
            files,
            transformer="../transformer.int8_convrot.safetensors",
            text_encoder="../text_encoder.int8_convrot.safetensors",
        ),
    )
    c = json.load(open(f"{root}/t2i-int8/case.json"))
    c["tolerance"] = {"rel_l2_embeddings": 0.01, "rel_l2": 0.02, "png_max_abs": 24}
    c["note"] = (
        "Integer rounding ties can flip with the order of float additions in the rotation, so latents may drift; a"
        " plain weight-dequantising path (no activation quantisation) differs from this by a few percent and is"
        " acceptable for display, not for this case."
    )
    case(f"{root}/t2i-int8", **c)

    # and with GGUF weights: DiT and text encoder Q8_0, text encoder names of llama.cpp
    Q = gguf.GGMLQuantizationType

    def choose(name, a):
        return (
            Q.Q8_0
            if a.ndim == 2
            and a.shape[1] % 32 == 0
            and a.shape[0] > 4
            and not name.startswith(("img_in", "proj_out", "time_text"))
            else Q.F32
        )

    held = gguf_write(f"{root}/transformer-Q8_0.gguf", "qwen_image21", plain_dit, choose)
    g_dit = copy.deepcopy(dit)
    m = held["img_in.weight"].shape[0] * 3
    for k in list(held):
        if k.endswith("gate_up.weight"):
            w = held.pop(k)
            held[k.replace("gate_up", "gate_layer")], held[k.replace("gate_up", "proj")] = w[:m], w[m:]
    g_dit.load_state_dict(held)
    names = {qwen_vl.gguf_text_name(k): k for k in plain_text if not k.startswith("visual.")}
    held = gguf_write(
        f"{root}/text_encoder-Q8_0.gguf",
        "qwen3vl",
        {n: plain_text[k] for n, k in names.items()},
        lambda n, a: Q.Q8_0 if a.ndim == 2 else Q.F32,
        lambda w: text_metadata(w, text.config, tok, "qwen3vl"),
    )
    g_text = copy.deepcopy(text)
    g_text.load_state_dict(
        {k.replace("model.", "model.language_model.", 1): held[n] for n, k in names.items()}, strict=False
    )
    generate(
        f"{root}/t2i-gguf",
        (tok, g_text, g_dit, vae),
        BASE,
        None,
        prompt,
        None,
        1.0,
        [],
        *size,
        3,
        1024,
        seed + 5,
        dict(files, transformer="../transformer-Q8_0.gguf", text_encoder="../text_encoder-Q8_0.gguf"),
        note=(
            "values are computed from the dequantised weights in float32; the tokenizer is also inside the GGUF"
            " metadata"
        ),
    )
