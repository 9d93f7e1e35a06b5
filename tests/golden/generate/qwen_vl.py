"""The vision-language encoders: Qwen3-VL (deepstack, interleaved mrope) and Qwen2.5-VL (window attention)."""

import os

import gguf
import torch
import transformers
from qwen_common import CHAT, SPECIAL, case, picture, randomise, taps, tensors, tiny_tokenizer
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

SYSTEM21 = "Comprehend and analyze the provided prompt."


def ids_of(tok):
    return {s: tok.convert_tokens_to_ids(s) for s in SPECIAL}


def build3(
    seed,
    tok,
    hidden=96,
    layers=4,
    vision_hidden=32,
    depth=5,
    deepstack=(1, 2, 3),
    grid=6,
    heads=4,
    kv=2,
    head_dim=16,
    mrope=(4, 2, 2),
):
    t = ids_of(tok)
    config = transformers.Qwen3VLConfig(
        text_config=dict(
            hidden_size=hidden,
            intermediate_size=160,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=kv,
            head_dim=head_dim,
            vocab_size=len(tok),
            rms_norm_eps=1e-6,
            max_position_embeddings=4096,
            pad_token_id=None,
            rope_parameters=dict(
                rope_type="default", rope_theta=5000000.0, mrope_section=list(mrope), mrope_interleaved=True
            ),
        ),
        vision_config=dict(
            depth=depth,
            hidden_size=vision_hidden,
            intermediate_size=48,
            num_heads=2,
            patch_size=16,
            temporal_patch_size=2,
            spatial_merge_size=2,
            out_hidden_size=hidden,
            num_position_embeddings=grid * grid,
            deepstack_visual_indexes=list(deepstack),
            hidden_act="gelu_pytorch_tanh",
        ),
        image_token_id=t["<|image_pad|>"],
        video_token_id=t["<|video_pad|>"],
        vision_start_token_id=t["<|vision_start|>"],
        vision_end_token_id=t["<|vision_end|>"],
        tie_word_embeddings=False,
    )
    model = transformers.Qwen3VLForConditionalGeneration._from_config(config, attn_implementation="eager")
    return randomise(model, seed)


def build25(seed, tok, hidden=96, layers=4, vision_hidden=32, depth=5, full=(1, 4)):
    t = ids_of(tok)
    config = transformers.Qwen2_5_VLConfig(
        text_config=dict(
            hidden_size=hidden,
            intermediate_size=160,
            num_hidden_layers=layers,
            num_attention_heads=4,
            num_key_value_heads=2,
            vocab_size=len(tok),
            rms_norm_eps=1e-6,
            max_position_embeddings=4096,
            pad_token_id=None,
            rope_parameters=dict(
                rope_type="default", rope_theta=1000000.0, mrope_section=[4, 4, 4] if hidden == 96 else [2, 3, 3]
            ),
        ),
        vision_config=dict(
            depth=depth,
            hidden_size=vision_hidden,
            intermediate_size=48,
            num_heads=2,
            patch_size=14,
            spatial_patch_size=14,
            temporal_patch_size=2,
            spatial_merge_size=2,
            window_size=56,
            out_hidden_size=hidden,
            fullatt_block_indexes=list(full),
            hidden_act="silu",
            tokens_per_second=2,
        ),
        image_token_id=t["<|image_pad|>"],
        video_token_id=t["<|video_pad|>"],
        vision_start_token_id=t["<|vision_start|>"],
        vision_end_token_id=t["<|vision_end|>"],
        tie_word_embeddings=False,
    )
    model = transformers.Qwen2_5_VLForConditionalGeneration._from_config(config, attn_implementation="eager")
    return randomise(model, seed)


def processor3(tok):
    ip = Qwen2VLImageProcessorPil(
        patch_size=16,
        merge_size=2,
        temporal_patch_size=2,
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
        size={"shortest_edge": 1024, "longest_edge": 16777216},
    )
    tok.image_token, tok.video_token, tok.vision_start_token, tok.vision_end_token = (
        "<|image_pad|>",
        "<|video_pad|>",
        "<|vision_start|>",
        "<|vision_end|>",
    )
    t = ids_of(tok)
    tok.image_token_id, tok.video_token_id = t["<|image_pad|>"], t["<|video_pad|>"]
    tok.vision_start_token_id, tok.vision_end_token_id = t["<|vision_start|>"], t["<|vision_end|>"]
    from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor

    return transformers.Qwen3VLProcessor(ip, tok, Qwen3VLVideoProcessor(), chat_template=CHAT)


def processor25(tok):
    ip = Qwen2VLImageProcessorPil(
        patch_size=14, merge_size=2, temporal_patch_size=2, size={"shortest_edge": 784, "longest_edge": 12845056}
    )
    processor3(tok)
    from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor

    return transformers.Qwen2_5_VLProcessor(ip, tok, Qwen2VLVideoProcessor(), chat_template=CHAT)


def comfy_names(state):
    """transformers -> ComfyUI single file; also the names inside a GGUF loader's view."""
    out = {}
    for k, v in state.items():
        if k.startswith("lm_head"):
            continue
        out[k.replace("model.language_model.", "model.").replace("model.visual.", "visual.")] = v
    return out


def summary(config):
    """What the tensor shapes of a small model do not tell."""
    t, v = config.text_config, config.vision_config
    out = dict(
        text=dict(
            num_attention_heads=t.num_attention_heads,
            num_key_value_heads=t.num_key_value_heads,
            rms_norm_eps=t.rms_norm_eps,
            rope_theta=t.rope_parameters["rope_theta"],
            mrope_section=list(t.rope_parameters["mrope_section"]),
        ),
        vision=dict(
            num_heads=v.num_heads, depth=v.depth, patch_size=v.patch_size, spatial_merge_size=v.spatial_merge_size
        ),
    )
    for k in ("deepstack_visual_indexes", "window_size", "fullatt_block_indexes"):
        if hasattr(v, k):
            out["vision"][k] = getattr(v, k)
    return out


def config_json(config):
    """What shapes do not tell, in the form of the config.json of a released model."""
    t, v = config.text_config, config.vision_config
    rope = ("mrope_interleaved", "mrope_section", "rope_theta")
    vision = (
        "deepstack_visual_indexes",
        "depth",
        "fullatt_block_indexes",
        "hidden_size",
        "num_heads",
        "patch_size",
        "window_size",
    )
    return dict(
        text_config=dict(
            hidden_size=t.hidden_size,
            num_attention_heads=t.num_attention_heads,
            rope_parameters={k: t.rope_parameters[k] for k in rope if k in t.rope_parameters},
        ),
        vision_config={k: getattr(v, k) for k in vision if hasattr(v, k)},
    )


def gguf_text_name(k):
    k = (
        k.replace("model.embed_tokens", "token_embd")
        .replace("model.norm", "output_norm")
        .replace("model.layers.", "blk.")
    )
    for a, b in (
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("self_attn.q_norm", "attn_q_norm"),
        ("self_attn.k_norm", "attn_k_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("input_layernorm", "attn_norm"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
    ):
        k = k.replace(a, b)
    return k


def gguf_vision(state, deepstack):
    """Qwen3-VL visual.* -> mmproj tensors (patch kernel split over time, deepstack by absolute layer)."""
    out = {}
    for k, v in state.items():
        k = k[len("visual.") :]
        if k == "patch_embed.proj.weight":
            out["v.patch_embd.weight"], out["v.patch_embd.weight.1"] = v[:, :, 0], v[:, :, 1]
            continue
        if k.startswith("deepstack_merger_list."):
            _, i, rest = k.split(".", 2)
            k = f"v.deepstack.{deepstack[int(i)]}." + rest.replace("linear_fc", "fc")
        for a, b in (
            ("patch_embed.proj.bias", "v.patch_embd.bias"),
            ("pos_embed.", "v.position_embd."),
            ("merger.norm.", "v.post_ln."),
            ("merger.linear_fc1.", "mm.0."),
            ("merger.linear_fc2.", "mm.2."),
            ("blocks.", "v.blk."),
            ("attn.qkv.", "attn_qkv."),
            ("attn.proj.", "attn_out."),
            ("mlp.linear_fc1.", "ffn_up."),
            ("mlp.linear_fc2.", "ffn_down."),
            ("norm1.", "ln1."),
            ("norm2.", "ln2."),
        ):
            if not k.startswith("v.deepstack"):
                k = k.replace(a, b)
        out[k] = v
    return out


def gguf_vision25(state):
    """Qwen2.5-VL visual.* -> mmproj tensors (patch kernel split over time, q, k and v apart)."""
    out = {}
    for k, v in state.items():
        k = k[len("visual.") :]
        if k == "patch_embed.proj.weight":
            out["v.patch_embd.weight"], out["v.patch_embd.weight.1"] = v[:, :, 0], v[:, :, 1]
            continue
        for a, b in (
            ("merger.ln_q.", "v.post_ln."),
            ("merger.mlp.", "mm."),
            ("blocks.", "v.blk."),
            ("attn.proj.", "attn_out."),
            ("mlp.gate_proj.", "ffn_gate."),
            ("mlp.up_proj.", "ffn_up."),
            ("mlp.down_proj.", "ffn_down."),
            ("norm1.", "ln1."),
            ("norm2.", "ln2."),
        ):
            k = k.replace(a, b)
        if "attn.qkv." in k:
            for name, part in zip("qkv", v.chunk(3)):
                out[k.replace("attn.qkv.", f"attn_{name}.")] = part
        else:
            out[k] = v
    return out


def write_mmproj(path, projector, config, sizes, mean, std, own, state):
    """A vision tower as llama.cpp stores it; own: what only this kind of tower says of itself."""
    w = gguf.GGUFWriter(path, "clip")
    w.add_type("mmproj")
    w.add_bool("clip.has_vision_encoder", True)
    w.add_string("clip.projector_type", projector)
    for key, value in (
        ("embedding_length", config["hidden_size"]),
        ("feed_forward_length", config["intermediate_size"]),
        ("block_count", config["depth"]),
        ("attention.head_count", config["num_heads"]),
        ("patch_size", config["patch_size"]),
        ("projection_dim", config["out_hidden_size"]),
        ("spatial_merge_size", 2),
        *sizes.items(),
    ):
        w.add_uint32("clip.vision." + key, value)
    w.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-6)
    w.add_array("clip.vision.image_mean", mean)
    w.add_array("clip.vision.image_std", std)
    for add, key, value in own:
        getattr(w, add)(key, value)
    for k, t in state.items():
        if t.ndim == 1 or "patch_embd" in k or "position_embd" in k:
            w.add_tensor(k, t.numpy().copy())
        else:
            w.add_tensor(
                k,
                gguf.quants.quantize(t.numpy().copy(), gguf.GGMLQuantizationType.BF16),
                raw_dtype=gguf.GGMLQuantizationType.BF16,
            )
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def write_mmproj25(path, config, state):
    write_mmproj(
        path,
        "qwen2.5vl_merger",
        config,
        {"image_size": 560, "window_size": config["window_size"]},
        [0.48145466, 0.4578275, 0.40821073],
        [0.26862954, 0.26130258, 0.27577711],
        [("add_bool", "clip.use_silu", True), ("add_uint32", "clip.vision.n_wa_pattern", 8)],
        gguf_vision25({k: t for k, t in state.items() if k.startswith("visual.")}),
    )


def encode(model, inputs):
    """All intermediate values: vision outputs, position ids, every layer, state before and after the final norm."""
    core, text = model.model, model.model.language_model
    modules = {f"layer{i}": l for i, l in enumerate(text.layers)}
    found, handles = taps(modules)
    extra = {}
    handles.append(
        text.norm.register_forward_hook(lambda m, a, o: extra.update(pre_norm=a[0].clone(), post_norm=o.clone()))
    )
    handles.append(text.rotary_emb.register_forward_hook(lambda m, a, o: extra.update(position_ids=a[1].clone())))
    vision, vhandles = taps(
        {f"vision.block{i}": b for i, b in enumerate(core.visual.blocks)}
        | {"vision.patch_embed": core.visual.patch_embed}
    )
    visual = {}
    handles.append(
        core.visual.register_forward_hook(
            lambda m, a, o: visual.update(
                merged=o.pooler_output.clone(), deep=list(getattr(o, "deepstack_features", None) or [])
            )
        )
    )
    model(**inputs)
    [h.remove() for h in handles + vhandles]
    out = {k: v[0] for k, v in found.items()} | {"pre_norm": extra["pre_norm"][0], "post_norm": extra["post_norm"][0]}
    p = extra["position_ids"]
    out["position_ids"] = (p if p.ndim == 3 else p[None].expand(3, -1, -1))[-3:, 0].to(torch.int32)
    if visual:
        out.update(vision)
        out["vision.merged"] = visual["merged"]
        for i, d in enumerate(visual["deep"]):
            out[f"vision.deepstack{i}"] = d
    return out


def write(folder, component, model, proc, prompt, images, drop_text, extra, weights):
    tok = proc.tokenizer
    batch = proc(text=[prompt], images=images or None, return_tensors="pt")
    out = encode(model, dict(batch))
    drop = len(tok.encode(drop_text))
    ids = batch["input_ids"][0].to(torch.int32)
    for i, im in enumerate(images):
        os.makedirs(folder, exist_ok=True)
        im.save(f"{folder}/image{i}.png")
    table = {"input_ids": ids}
    if images:
        table.update(patches=batch["pixel_values"], grid_thw=batch["image_grid_thw"].to(torch.int32))
    tensors(f"{folder}/expected.safetensors", table | out)
    case(
        folder,
        component=component,
        prompt=prompt,
        images=len(images),
        drop_tokens=drop,
        weights=weights,
        tokenizer="../tokenizer.json",
        **extra,
    )


def main(seed, out, variant):
    v = variant
    tok = tiny_tokenizer(160 - 40 * v)
    prompts = (
        ["a red boat on a quiet lake, caf\u00e9 12:30", "replace the hat with a green one\n"]
        if not v
        else ["the stone bridge over the river \u6a4b", "keep <image1>, use <image2>!"]
    )

    root = f"{out}/qwen3-vl"
    kw = dict() if not v else dict(hidden=64, layers=5, depth=6, deepstack=(0, 2, 4), grid=8)
    model = build3(seed, tok, **kw)
    os.makedirs(root, exist_ok=True)
    tok.backend_tokenizer.save(f"{root}/tokenizer.json")
    state = model.state_dict()
    tensors(f"{root}/weights.safetensors", comfy_names(state), torch.bfloat16)
    config = dict(text=model.config.text_config.to_dict(), vision=model.config.vision_config.to_dict())
    config = {
        a: {
            k: b[k]
            for k in sorted(b)
            if k in (
                "hidden_size",
                "intermediate_size",
                "num_hidden_layers",
                "num_attention_heads",
                "num_key_value_heads",
                "head_dim",
                "vocab_size",
                "rms_norm_eps",
                "rope_parameters",
                "depth",
                "num_heads",
                "patch_size",
                "temporal_patch_size",
                "spatial_merge_size",
                "out_hidden_size",
                "num_position_embeddings",
                "deepstack_visual_indexes",
                "hidden_act",
            )
        }
        for a, b in config.items()
    }
    proc = processor3(tok)
    sys_turn = f"<|im_start|>system\n{SYSTEM21}<|im_end|>\n"
    block = "<|vision_start|><|image_pad|><|vision_end|>"
    t2i = sys_turn + "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
    write(
        f"{root}/text",
        "qwen3-vl",
        model,
        proc,
        t2i.format(prompts[0]),
        [],
        sys_turn,
        dict(config=config),
        "../weights.safetensors",
    )
    sizes = [(64, 96), (96, 32)] if not v else [(32, 64), (96, 96), (64, 32)]
    images = [picture(w, h, seed + i) for i, (w, h) in enumerate(sizes)]
    refs = " ".join(f"<image{i + 1}>{block}" for i in range(len(images)))
    write(
        f"{root}/images",
        "qwen3-vl",
        model,
        proc,
        t2i.format(refs + prompts[1]),
        images,
        sys_turn,
        dict(config=config),
        "../weights.safetensors",
    )
    visual = {k: t for k, t in comfy_names(state).items() if k.startswith("visual.")}
    c = config["vision"]
    side = int(c["num_position_embeddings"] ** 0.5) * c["patch_size"]
    deepstack = [i in c["deepstack_visual_indexes"] for i in range(c["depth"])]
    write_mmproj(
        f"{root}/mmproj.gguf",
        "qwen3vl_merger",
        c,
        {"image_size": side},
        [0.5] * 3,
        [0.5] * 3,
        [("add_bool", "clip.use_gelu", True), ("add_array", "clip.vision.is_deepstack_layers", deepstack)],
        gguf_vision(visual, c["deepstack_visual_indexes"]),
    )

    root = f"{out}/qwen25-vl"
    model = build25(seed + 1, tok, **(dict() if not v else dict(hidden=64, layers=3, depth=4, full=(2,))))
    os.makedirs(root, exist_ok=True)
    tok.backend_tokenizer.save(f"{root}/tokenizer.json")
    tensors(f"{root}/weights.safetensors", comfy_names(model.state_dict()), torch.bfloat16)
    config = dict(text=model.config.text_config.to_dict(), vision=model.config.vision_config.to_dict())
    config = {
        a: {
            k: b[k]
            for k in sorted(b)
            if k in (
                "hidden_size",
                "intermediate_size",
                "num_hidden_layers",
                "num_attention_heads",
                "num_key_value_heads",
                "vocab_size",
                "rms_norm_eps",
                "rope_parameters",
                "depth",
                "num_heads",
                "patch_size",
                "temporal_patch_size",
                "spatial_merge_size",
                "out_hidden_size",
                "window_size",
                "fullatt_block_indexes",
                "hidden_act",
            )
        }
        for a, b in config.items()
    }
    write_mmproj25(f"{root}/mmproj.gguf", config["vision"], comfy_names(model.state_dict()))
    proc = processor25(tok)
    sys_turn = (
        "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, spatial"
        " relationships of the objects and background:<|im_end|>\n"
    )
    head = "<|im_start|>user\n"
    write(
        f"{root}/text",
        "qwen2.5-vl",
        model,
        proc,
        sys_turn + head + prompts[0] + "<|im_end|>\n<|im_start|>assistant\n",
        [],
        sys_turn + head,
        dict(config=config),
        "../weights.safetensors",
    )
    images = [picture(w, h, seed + 9 + i) for i, (w, h) in enumerate([(140, 84), (56, 112)] if not v else [(84, 196)])]
    refs = "".join(f"Picture {i + 1}: {block}" for i in range(len(images)))
    write(
        f"{root}/images",
        "qwen2.5-vl",
        model,
        proc,
        sys_turn + head + refs + prompts[1] + "<|im_end|>\n<|im_start|>assistant\n",
        images,
        sys_turn + head,
        dict(config=config),
        "../weights.safetensors",
    )
