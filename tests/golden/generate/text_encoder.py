"""Tiny Qwen3 and Qwen3-VL text encoders with the real topology."""

import os

import torch
from common import Dice, Taps, case, randomize, save

KREA_TAPS = (2, 5, 8, 11, 14, 17, 20, 23, 26, 29, 32, 35)


def text_config(dice, layers, vocab, hidden):
    kv = dice.pick([2, 3])
    return {
        "vocab_size": vocab,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": kv * 2,
        "num_key_value_heads": kv,
        "head_dim": 16,
        "intermediate_size": dice.pick([80, 96]),
        "rms_norm_eps": 1e-6,
    }


def build_qwen3(dice, config):
    from transformers import Qwen3Config, Qwen3Model

    cfg = Qwen3Config(
        **config,
        max_position_embeddings=40960,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
        tie_word_embeddings=True,
        attn_implementation="eager",
        pad_token_id=None,
    )
    return randomize(Qwen3Model(cfg), dice)


def build_qwen3vl_text(dice, config):
    from transformers import Qwen3VLTextConfig
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextModel

    cfg = Qwen3VLTextConfig(
        **config,
        max_position_embeddings=262144,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 5000000.0,
            "mrope_section": [4, 2, 2],
            "mrope_interleaved": True,
        },
        attn_implementation="eager",
        pad_token_id=None,
    )
    return randomize(Qwen3VLTextModel(cfg), dice)


def encode(model, ids):
    """All hidden states of one unpadded sequence: entry 0 is the embedding, entry k the output of k layers; the
    last entry has the final norm applied, as transformers returns it."""
    ids = torch.tensor([ids], dtype=torch.long)
    return model(input_ids=ids, output_hidden_states=True).hidden_states


def single_file(model, prefix):
    """prefix 'model.' for Qwen3 and ComfyUI files, 'model.language_model.' for Qwen3-VL repositories."""
    return {prefix + k: v for k, v in model.state_dict().items()}


def detailed_entry(model, dice, vocab, length):
    ids = [dice.choices.randrange(vocab) for _ in range(length)]
    taps = Taps()
    layer = model.layers[0]
    taps.add(layer.input_layernorm, "layer0.input_layernorm")
    taps.add(layer.self_attn.q_norm, "layer0.q_norm")
    taps.add(layer.self_attn.k_norm, "layer0.k_norm")
    taps.add(layer.self_attn, "layer0.attn_out")
    taps.add(layer.post_attention_layernorm, "layer0.post_attention_layernorm")
    taps.add(layer.mlp, "layer0.mlp_out")
    states = encode(model, ids)
    values = taps.close()
    return ids, states, values


def main(seed, out):
    for name, build, prefix in (
        ("qwen3", build_qwen3, "model."),
        ("qwen3vl", build_qwen3vl_text, "model.language_model."),
    ):
        dice = Dice(seed, "text-encoder/" + name)
        config = text_config(dice, layers=dice.pick([3, 4]), vocab=dice.pick([97, 128]), hidden=dice.pick([32, 48]))
        model = build(dice, config)
        folder = os.path.join(out, "text-encoder", name)
        save(os.path.join(folder, "model.safetensors"), single_file(model, prefix), torch.float32)
        io, entries = {}, []
        for n, length in enumerate((dice.pick([7, 11]), dice.pick([33, 40]), 1)):
            ids, states, values = detailed_entry(model, dice, config["vocab_size"], length)
            io[f"{n}.ids"] = torch.tensor(ids, dtype=torch.int32)
            for k, s in enumerate(states):
                label = "normed_last" if k == len(states) - 1 else f"hidden_states.{k}"
                io[f"{n}.{label}"] = s[0]
            for k, v in values.items():
                io[f"{n}.{k}"] = v[0]
            entries.append({"prefix": f"{n}.", "input": "ids", "output": "hidden_states.*, normed_last"})
        save(os.path.join(folder, "io.safetensors"), io)
        config["rope_theta"] = 1000000.0 if name == "qwen3" else 5000000.0
        case(
            folder, "text-encoder", {"file": "model.safetensors", "dtype": "F32", "key_prefix": prefix}, config, entries
        )
