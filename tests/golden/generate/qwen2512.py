"""Qwen-Image 2512: dual-stream transformer, schedules, guidance, end-to-end runs."""

import json
import math
import os
import re

import numpy as np
import torch
import inpaint
import qwen_vl
from diffusers import (
    QwenImageTransformer2DModel,
    QwenImageEditPlusPipeline,
    QwenImageInpaintPipeline,
    QwenImagePipeline,
    AutoencoderKLQwenImage,
    FlowMatchEulerDiscreteScheduler,
)
from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit_plus as edit_plus
from diffusers.pipelines.qwenimage import pipeline_qwenimage_inpaint as with_mask
from qwen_common import case, picture, randomise, taps, tensors, tiny_tokenizer

TEMPLATE = (
    "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, spatial"
    " relationships of the objects and background:<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
)
DYNAMIC = dict(
    base_image_seq_len=256,
    base_shift=0.5,
    max_image_seq_len=8192,
    max_shift=0.9,
    shift=1.0,
    shift_terminal=0.02,
    time_shift_type="exponential",
    use_dynamic_shifting=True,
)


def build(seed, context, layers=2, heads=2, hd=32, axes=(4, 14, 14)):
    model = QwenImageTransformer2DModel(
        num_layers=layers,
        num_attention_heads=heads,
        attention_head_dim=hd,
        joint_attention_dim=context,
        axes_dims_rope=axes,
        in_channels=64,
        out_channels=16,
    )
    randomise(model, seed)
    return model, dict(
        hidden=heads * hd,
        heads=heads,
        head_dim=hd,
        layers=layers,
        context_dim=context,
        axes_dims_rope=list(axes),
        in_channels=64,
        out_channels=16,
        patch=2,
        eps=1e-6,
    )


def vae_to_wan(state):
    """diffusers -> Wan 2.1 single-file naming (flat block lists)."""
    out = {}
    for k, v in state.items():
        n = k.replace("post_quant_conv", "conv2").replace("quant_conv", "conv1")
        n = n.replace(".conv_in.", ".conv1.").replace(".conv_out.", ".head.2.").replace(".norm_out.", ".head.0.")
        n = (
            n.replace("mid_block.resnets.0", "middle.0")
            .replace("mid_block.resnets.1", "middle.2")
            .replace("mid_block.attentions.0", "middle.1")
        )
        n = n.replace("encoder.down_blocks.", "encoder.downsamples.")
        n = re.sub(
            r"decoder\.up_blocks\.(\d+)\.resnets\.(\d+)", lambda m: f"decoder.upsamples.{int(m[1]) * 4 + int(m[2])}", n
        )
        n = re.sub(r"decoder\.up_blocks\.(\d+)\.upsamplers\.0", lambda m: f"decoder.upsamples.{int(m[1]) * 4 + 3}", n)
        if re.search(r"(samples|middle)\.\d+\.(norm|conv)", n) and "middle.1" not in n:
            for old, new in (
                ("norm1", "residual.0"),
                ("conv1", "residual.2"),
                ("norm2", "residual.3"),
                ("conv2", "residual.6"),
                ("conv_shortcut", "shortcut"),
            ):
                n = n.replace("." + old + ".", "." + new + ".")
        out[n] = v
    return out


def dit_case(model, config, folder, gen, grids, n_text, t):
    """grids: packed (h/2, w/2) token grids, target first, then references."""
    embeds = torch.randn(1, n_text, config["context_dim"], generator=gen)
    tokens = [torch.randn(1, h * w, 64, generator=gen) for h, w in grids]
    modules = {
        "temb": model.time_text_embed,
        "txt_in": model.txt_in,
        "img_in": model.img_in,
        "norm_out": model.norm_out,
    }
    found, handles = taps(modules)
    blocks = {}
    handles += [
        b.register_forward_hook(
            lambda m, a, o, i=i: blocks.update({f"block{i}.text": o[0].clone(), f"block{i}.image": o[1].clone()})
        )
        for i, b in enumerate(model.transformer_blocks)
    ]
    out = model(
        hidden_states=torch.cat(tokens, 1),
        encoder_hidden_states=embeds,
        encoder_hidden_states_mask=torch.ones(1, n_text, dtype=torch.bool),
        timestep=torch.tensor([t]),
        img_shapes=[[(1, h, w) for h, w in grids]],
        return_dict=False,
    )[0]
    [h.remove() for h in handles]
    rope = model.pos_embed([[(1, h, w) for h, w in grids]], max_txt_seq_len=n_text, device=torch.device("cpu"))
    tensors(
        f"{folder}/inputs.safetensors",
        {"encoder_hidden_states": embeds, **{f"tokens{i}": x for i, x in enumerate(tokens)}},
    )
    tensors(
        f"{folder}/expected.safetensors",
        {k: v for k, v in (found | blocks).items()}
        | {
            "output": out[:, : tokens[0].shape[1]],
            "rope.image.cos": rope[0].real,
            "rope.image.sin": rope[0].imag,
            "rope.text.cos": rope[1].real,
            "rope.text.sin": rope[1].imag,
        },
    )
    case(
        folder,
        component="qwen2512-dit",
        weights="../weights.safetensors",
        config=config,
        grids=grids,
        timestep=t,
        note="tokens0 = packed target (channel*4 + dy*2 + dx), tokens1.. = references",
    )


def simple_sigmas(shift, steps):
    table = [shift * t / (1 + (shift - 1) * t) for t in torch.arange(1, 1001) / 1000]
    return torch.tensor([float(table[-(1 + int(i * (1000 / steps)))]) for i in range(steps)] + [0.0])


def end_to_end(folder, parts, gen_seed, prompt, negative, cfg, width, height, steps, mode, shift=None):
    tok, text, dit, vae, root = parts
    gen = torch.Generator().manual_seed(gen_seed)
    noise = torch.randn(1, 16, height // 8, width // 8, generator=gen)
    pack = lambda z: QwenImagePipeline._pack_latents(z, 1, 16, height // 8, width // 8)
    unpack = lambda x: QwenImagePipeline._unpack_latents(x, height, width, 8)[0, :, 0]
    sched = FlowMatchEulerDiscreteScheduler(**DYNAMIC)
    pipe = QwenImagePipeline(sched, vae, text, tok, dit)
    sys_turn = TEMPLATE.split("{}")[0]
    pipe.prompt_template_encode_start_idx = drop = len(tok.encode(sys_turn))
    pipe.set_progress_bar_config(disable=True)
    expected, log = {}, []
    for name, p in (("positive", prompt), ("negative", negative)):
        expected[name + ".input_ids"] = torch.tensor(tok.encode(TEMPLATE.format(p)), dtype=torch.int32)
        expected[name + ".embeddings"] = pipe.encode_prompt(p, device="cpu")[0][0]
    if mode == "pipeline":

        def step(p, i, t, k):
            log.append(unpack(k["latents"]))
            return {}

        image = pipe(
            prompt=prompt,
            negative_prompt=negative,
            true_cfg_scale=cfg,
            width=width,
            height=height,
            num_inference_steps=steps,
            latents=pack(noise[:, None]),
            callback_on_step_end=step,
        ).images[0]
        sigmas = pipe.scheduler.sigmas
    else:
        sigmas = simple_sigmas(shift, steps)
        x = pack(noise[:, None])
        for i in range(steps):
            v = []
            for name in ("positive", "negative"):
                e = expected[name + ".embeddings"][None]
                v.append(
                    dit(
                        hidden_states=x,
                        encoder_hidden_states=e,
                        encoder_hidden_states_mask=torch.ones(e.shape[:2], dtype=torch.bool),
                        timestep=sigmas[i : i + 1],
                        img_shapes=[[(1, height // 16, width // 16)]],
                        return_dict=False,
                    )[0]
                )
            x = x + (sigmas[i + 1] - sigmas[i]) * (v[1] + cfg * (v[0] - v[1]))
            log.append(unpack(x))
        z = log[-1][None, :, None]
        mean, std = (torch.tensor(c).view(1, 16, 1, 1, 1) for c in (vae.config.latents_mean, vae.config.latents_std))
        image = pipe.image_processor.postprocess(
            vae.decode(z * std + mean, return_dict=False)[0][:, :, 0], output_type="pil"
        )[0]
    expected["sigmas"] = sigmas
    expected.update({f"step{i}.latents": l for i, l in enumerate(log)})
    os.makedirs(folder, exist_ok=True)
    image.save(f"{folder}/image.png")
    tensors(f"{folder}/inputs.safetensors", {"noise": noise[0]})
    tensors(f"{folder}/expected.safetensors", expected)
    case(
        folder,
        component="qwen2512-e2e",
        prompt=prompt,
        negative_prompt=negative,
        cfg=cfg,
        cfg_rescale=mode == "pipeline",
        flow_shift=shift,
        schedule="simple" if shift else "dynamic",
        width=width,
        height=height,
        steps=steps,
        seed=gen_seed,
        drop_tokens=drop,
        config=dict(qwen_vl.summary(text.config), transformer=dict(heads=2, axes_dims_rope=[4, 14, 14])),
        tokenizer="../../../qwen21-e2e/tokenizer.json",
        weights=dict(
            transformer="../transformer.safetensors",
            text_encoder="../text_encoder.safetensors",
            vae="../vae.safetensors",
        ),
        mode=image.mode,
        tolerance={"rel_l2": 1e-4, "rel_l2_last_step": 1e-3, "png_max_abs": 2, "png_mismatch_fraction": 0.01},
    )


def edit(folder, parts, gen_seed, prompt, negative, cfg, sizes, resolution, width, height, steps):
    """Qwen-Image-Edit 2509: the pipeline as it is, but for the number of pixels that the VAE gets of a picture."""
    tok, text, dit, vae, root = parts
    os.makedirs(folder, exist_ok=True)
    pictures = [picture(w, h, gen_seed + i, "RGB") for i, (w, h) in enumerate(sizes)]
    for i, p in enumerate(pictures):
        p.save(f"{folder}/reference{i}.png")
    gen = torch.Generator().manual_seed(gen_seed)
    noise = torch.randn(1, 16, height // 8, width // 8, generator=gen)
    unpack = lambda x: QwenImagePipeline._unpack_latents(x, height, width, 8)[0, :, 0]
    processor = qwen_vl.processor25(tok)
    pipe = QwenImageEditPlusPipeline(FlowMatchEulerDiscreteScheduler(**DYNAMIC), vae, text, tok, processor, dit)
    pipe.set_progress_bar_config(disable=True)
    pipe.prompt_template_encode_start_idx = drop = len(tok.encode(pipe.prompt_template_encode.split("{}")[0]))
    expected, log, inputs = {}, [], []
    encode_prompt, encode_picture, process = pipe.encode_prompt, pipe._encode_vae_image, pipe.processor
    forward = text.forward

    def step(p, i, t, k):
        log.append(unpack(k["latents"]))
        return {}

    def watch_prompt(**k):
        name = "negative" if "positive.embeddings" in expected else "positive"
        embeds, mask = encode_prompt(**k)
        expected[name + ".embeddings"] = embeds[0]
        expected[name + ".input_ids"] = inputs[-1]["input_ids"][0].to(torch.int32)
        return embeds, mask

    def watch_processor(**k):
        inputs.append(process(**k))
        return inputs[-1]

    def forward_with_types(**k):
        """transformers 5 turns pictures by row and column only if it is told which tokens are theirs, as 4 knew."""
        return forward(**k, mm_token_type_ids=inputs[-1]["mm_token_type_ids"])

    def watch_picture(image, generator):
        latent = encode_picture(image=image, generator=generator)
        expected[f"reference{sum(k.startswith('reference') for k in expected)}.latents"] = latent[0, :, 0]
        return latent

    pipe.encode_prompt, pipe._encode_vae_image, pipe.processor = watch_prompt, watch_picture, watch_processor
    text.forward = forward_with_types
    edit_plus.VAE_IMAGE_SIZE = resolution * resolution
    image = pipe(
        image=pictures,
        prompt=prompt,
        negative_prompt=negative,
        true_cfg_scale=cfg,
        width=width,
        height=height,
        num_inference_steps=steps,
        latents=QwenImagePipeline._pack_latents(noise[:, None], 1, 16, height // 8, width // 8),
        callback_on_step_end=step,
    ).images[0]
    text.forward = forward
    expected["sigmas"] = pipe.scheduler.sigmas
    expected.update({f"step{i}.latents": l for i, l in enumerate(log)})
    image.save(f"{folder}/image.png")
    tensors(f"{folder}/inputs.safetensors", {"noise": noise[0]})
    tensors(f"{folder}/expected.safetensors", expected)
    case(
        folder,
        component="qwen2512-e2e",
        prompt=prompt,
        negative_prompt=negative,
        cfg=cfg,
        cfg_rescale=True,
        schedule="dynamic",
        width=width,
        height=height,
        steps=steps,
        seed=gen_seed,
        references=len(pictures),
        reference_resolution=resolution,
        drop_tokens=drop,
        mode=image.mode,
        note="QwenImageEditPlusPipeline; the VAE gets about reference_resolution squared pixels of each picture.",
    )


def inpainted(folder, parts, seed, prompt, negative, cfg, width, height, steps, strength):
    """The pipeline for inpainting. It counts all steps, of which strength leaves the last; Kuno those that are left."""
    tok, text, dit, vae, root = parts
    os.makedirs(folder, exist_ok=True)
    start = picture(width, height, seed, "RGB")
    mask = inpaint.blocks(width, height, 8, np.random.default_rng(seed))
    start.save(f"{folder}/input.png")
    mask.save(f"{folder}/mask.png")
    unpack = lambda x: QwenImagePipeline._unpack_latents(x, height, width, 8)[0, :, 0]
    pipe = QwenImageInpaintPipeline(FlowMatchEulerDiscreteScheduler(**DYNAMIC), vae, text, tok, dit)
    pipe.prompt_template_encode_start_idx = drop = len(tok.encode(TEMPLATE.split("{}")[0]))
    pipe.set_progress_bar_config(disable=True)
    with_mask.retrieve_latents = lambda out, generator=None, sample_mode=None: out.latent_dist.mode()
    expected, log = {}, []
    for name, p in (("positive", prompt), ("negative", negative)):
        expected[name + ".input_ids"] = torch.tensor(tok.encode(TEMPLATE.format(p)), dtype=torch.int32)
        expected[name + ".embeddings"] = pipe.encode_prompt(p, device="cpu")[0][0]
    expected["encoded"] = pipe._encode_vae_image(pipe.image_processor.preprocess(start)[:, :, None], None)[0, :, 0]

    def step(p, i, t, k):
        log.append(unpack(k["latents"]))
        return {}

    image = pipe(
        prompt=prompt,
        image=start,
        mask_image=mask,
        negative_prompt=negative,
        true_cfg_scale=cfg,
        width=width,
        height=height,
        num_inference_steps=steps,
        strength=strength,
        generator=torch.Generator().manual_seed(seed),
        callback_on_step_end=step,
    ).images[0]
    expected["sigmas"] = pipe.scheduler.sigmas[-len(log) - 1 :]
    expected.update({f"step{i}.latents": l for i, l in enumerate(log)})
    inpaint.laid_over(start, image, mask).save(f"{folder}/image.png")
    noise = torch.randn(1, 16, height // 8, width // 8, generator=torch.Generator().manual_seed(seed))
    tensors(f"{folder}/inputs.safetensors", {"noise": noise[0]})
    tensors(f"{folder}/expected.safetensors", expected)
    case(
        folder,
        component="qwen2512-e2e",
        prompt=prompt,
        negative_prompt=negative,
        cfg=cfg,
        cfg_rescale=True,
        schedule="dynamic",
        width=width,
        height=height,
        steps=len(log),
        strength=strength,
        mask="mask.png",
        seed=seed,
        drop_tokens=drop,
        mode=image.mode,
        note="QwenImageInpaintPipeline with the VAE's mean; its mask is that of squares of 8 pixels, so that scaling to"
        " the nearest and between neighbours agree. image.png has the untouched pixels of input.png outside.",
    )


def main(seed, out, variant):
    out, v = f"{out}/qwen2512", variant
    gen = torch.Generator().manual_seed(seed + 1000)
    root = f"{out}/dit"
    model, config = build(seed, 80, layers=2 + v, heads=2 + v)
    tensors(f"{root}/weights.safetensors", model.state_dict(), torch.bfloat16)
    dit_case(model, config, f"{root}/t2i", gen, [(4, 6 + 2 * v)], 7 + v, 0.9)
    dit_case(model, config, f"{root}/t2i-odd", gen, [(5, 3)], 12, 0.3)
    dit_case(model, config, f"{root}/edit", gen, [(4, 4), (3, 5)], 6, 0.65)

    root = f"{out}/e2e"
    os.makedirs(root, exist_ok=True)
    tok = tiny_tokenizer(160 - 40 * v)
    tok.model_max_length = 100000
    text = qwen_vl.build25(seed + 1, tok, **(dict(hidden=64, layers=3, depth=4, full=(2,)) if v else {}))
    dit, _ = build(seed + 2, text.config.text_config.hidden_size)
    vae = randomise(AutoencoderKLQwenImage(base_dim=4 + 4 * v), seed + 3, gain=1.6)
    with open(f"{root}/config.json", "w") as f:
        json.dump(qwen_vl.config_json(text.config), f, indent=1)
    tensors(
        f"{root}/transformer.safetensors",
        {"model.diffusion_model." + k: t for k, t in dit.state_dict().items()},
        torch.bfloat16,
    )
    tensors(f"{root}/text_encoder.safetensors", qwen_vl.comfy_names(text.state_dict()), torch.bfloat16)
    tensors(f"{root}/vae.safetensors", vae_to_wan(vae.state_dict()), torch.bfloat16)
    parts = tok, text, dit, vae, root
    prompt, negative = (
        ("a red boat on a quiet lake at dawn", "blurry, low quality")
        if not v
        else ("green stone bridge", "\u4f4e\u753b\u8d28")
    )
    end_to_end(f"{root}/t2i-simple", parts, seed + 4, prompt, negative, 5.0, 64, 48 + 32 * v, 4 + v, "comfy", 3.1)
    end_to_end(f"{root}/t2i-dynamic", parts, seed + 5, prompt, negative, 4.0, 48, 64, 4, "pipeline")
    sizes = ((90, 60), (50, 120)) if not v else ((64, 64),)
    edit(f"{root}/edit", parts, seed + 6, "replace the hat with a green one", negative, 4.0, sizes, 96, 64, 48, 3 + v)
    inpainted(f"{root}/inpaint", parts, seed + 7, prompt, negative, 4.0, 64, 48, 8 + 2 * v, 0.5)
    table = {
        f"simple_{s}_{n}": simple_sigmas(s, n)
        for s, n in (((3.1, 100), (3.1, 20), (1.0, 7), (3.0, 30)) if not v else ((3.1, 37), (2.2, 11), (5.0, 64)))
    }
    for tokens in (1024, 4096, 8214, 16384) if not v else (576, 6150, 10240):
        for n in (2, 8, 25, 40) if not v else (3, 20, 50):
            sched = FlowMatchEulerDiscreteScheduler(**DYNAMIC)
            sched.set_timesteps(sigmas=np.linspace(1.0, 1 / n, n), mu=0.5 + (tokens - 256) * 0.4 / 7936)
            table[f"dynamic_{tokens}_{n}"] = sched.sigmas.clone()
    for n in (20, 33):
        t = (torch.arange(1, 10001) / 10000).double()
        sig = math.exp(1.15) / (math.exp(1.15) + 1 / t - 1)
        table[f"default2512_{n}"] = torch.tensor([float(sig[-(1 + int(i * (10000 / n)))]) for i in range(n)] + [0.0])
    tensors(f"{out}/schedules/expected.safetensors", table)
