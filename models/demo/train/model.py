"""The image transformer and its text encoder, with exactly the parameter names of the single-file checkpoints.

Text rows are modulated from t = 0 and never see the picture, so one pass over a caption serves several noise levels:
forward() takes B captions of equal length and K noisy latents per caption.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from fused import LIB, num, ptr

DIM, HEADS, HEAD, LAYERS, MLP, LATENT = 192, 3, 64, 4, 576, 64
T_DIM, T_HEADS, T_KV, T_LAYERS, T_MLP, VOCAB, THETA = 128, 4, 2, 3, 320, 2048, 5e6


def rms(x, weight=None, eps=1e-6):
    return F.rms_norm(x, x.shape[-1:], weight, eps)


class RmsRope(torch.autograd.Function):
    """Per-head RMS norm and rotation of (B,n,heads*64) in bfloat16 -> (B,heads,n,64); see fused.c."""

    @staticmethod
    def forward(ctx, x, g, cos, sin):
        x, g = x.contiguous(), g.detach().float()
        b, n, w = x.shape
        y = x.new_empty(b, w // HEAD, n, HEAD)
        LIB.rms_rope(ptr(x), ptr(g), ptr(cos), ptr(sin), None, ptr(y), None, num(b), num(n), num(w // HEAD))
        ctx.save_for_backward(x, g, cos, sin)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, g, cos, sin = ctx.saved_tensors
        b, n, w = x.shape
        dy, dx, dg = dy.contiguous(), torch.empty_like(x), torch.empty_like(g)
        LIB.rms_rope(ptr(x), ptr(g), ptr(cos), ptr(sin), ptr(dy), ptr(dx), ptr(dg), num(b), num(n), num(w // HEAD))
        return dx, dg.bfloat16(), None, None


def attend(q, k, v, mask=None):
    """Plain attention on (B,heads,n,64): faster to differentiate than the fused kernel at this size."""
    s = q @ k.transpose(-1, -2) * HEAD ** -0.5
    return (s if mask is None else s + mask).softmax(-1) @ v


def causal(n, dtype):
    """Additive mask that hides later tokens."""
    return torch.full((n, n), float("-inf"), dtype=dtype).triu(1)


def linear(i, o):
    m = nn.Linear(i, o, bias=False)
    nn.init.normal_(m.weight, std=i ** -0.5)
    return m


class Scale(nn.Module):
    def __init__(self, n, value=1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.full((n,), value))


class TextLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = Scale(T_DIM), Scale(T_DIM)
        self.self_attn = nn.ModuleDict(dict(
            q_proj=linear(T_DIM, T_HEADS * HEAD), k_proj=linear(T_DIM, T_KV * HEAD), v_proj=linear(T_DIM, T_KV * HEAD),
            o_proj=linear(T_HEADS * HEAD, T_DIM), q_norm=Scale(HEAD), k_norm=Scale(HEAD)))
        self.mlp = nn.ModuleDict(dict(gate_proj=linear(T_DIM, T_MLP), up_proj=linear(T_DIM, T_MLP), down_proj=linear(T_MLP, T_DIM)))

    def forward(self, x, cos, sin):
        a, (b, n, _) = self.self_attn, x.shape
        u = rms(x, self.input_layernorm.weight)
        rot = lambda v: v * cos + torch.cat((-v[..., HEAD // 2:], v[..., :HEAD // 2]), -1) * sin
        q = rot(rms(a.q_proj(u).view(b, n, T_HEADS, HEAD), a.q_norm.weight).transpose(1, 2))
        k = rot(rms(a.k_proj(u).view(b, n, T_KV, HEAD), a.k_norm.weight).transpose(1, 2))
        v = a.v_proj(u).view(b, n, T_KV, HEAD).transpose(1, 2)
        g = T_HEADS // T_KV
        o = attend(q, k.repeat_interleave(g, 1), v.repeat_interleave(g, 1), causal(n, x.dtype))
        x = x + a.o_proj(o.transpose(1, 2).reshape(b, n, -1))
        u = rms(x, self.post_attention_layernorm.weight)
        return x + self.mlp.down_proj(F.silu(self.mlp.gate_proj(u)) * self.mlp.up_proj(u))


class TextEncoder(nn.Module):
    """Qwen3-VL language model; returns the last layer's output without the final norm."""

    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCAB, T_DIM)
        nn.init.normal_(self.embed_tokens.weight, std=0.3)
        self.layers = nn.ModuleList(TextLayer() for _ in range(T_LAYERS))
        self.norm = Scale(T_DIM)

    def forward(self, ids, dtype):
        x = self.embed_tokens(ids).to(dtype)
        a = torch.arange(ids.shape[1])[:, None] * THETA ** (-torch.arange(0, HEAD, 2) / HEAD)
        a = torch.cat((a, a), -1)
        for layer in self.layers:
            x = layer(x, a.cos().to(dtype), a.sin().to(dtype))
        return x


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.to_q, self.to_k, self.to_v = (linear(DIM, DIM) for _ in range(3))
        self.to_out = nn.ModuleList([linear(DIM, DIM)])
        self.norm_q, self.norm_k = Scale(HEAD), Scale(HEAD)

    def qkv(self, u, cos, sin):
        def rope(x, scale):
            if x.dtype == torch.bfloat16:
                return RmsRope.apply(x, scale, cos, sin)
            a, b = rms(x.unflatten(-1, (HEADS, HEAD)), scale).transpose(1, 2).unflatten(-1, (HEAD // 2, 2)).unbind(-1)
            return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)
        v = self.to_v(u).unflatten(-1, (HEADS, HEAD)).transpose(1, 2)
        return rope(self.to_q(u), self.norm_q.weight), rope(self.to_k(u), self.norm_k.weight), v

    def out(self, o):
        return self.to_out[0](o.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = Attention()
        self.img_mlp = nn.ModuleDict(dict(gate_up=linear(DIM, 2 * MLP), out=linear(MLP, DIM)))

    def mlp(self, u):
        g, p = self.img_mlp.gate_up(u).chunk(2, -1)
        return self.img_mlp.out(F.silu(g) * p)

    def forward(self, x, y, mod_x, mod_y, rope_x, rope_y, last):
        """x: text rows (B,n,D); y: picture rows (B*K,m,D)."""
        norm = lambda v, s: F.layer_norm(v, (DIM,), eps=1e-6) * (1 + s)
        (s1, g1, s2, g2), (r1, h1, r2, h2) = mod_x, mod_y
        q, k, v = self.attn.qkv(norm(x, s1), *rope_x)
        qy, ky, vy = self.attn.qkv(norm(y, r1), *rope_y)
        rep = y.shape[0] // x.shape[0]
        ky = torch.cat((k.repeat_interleave(rep, 0), ky), 2)
        vy = torch.cat((v.repeat_interleave(rep, 0), vy), 2)
        y = y + h1 * self.attn.out(attend(qy, ky, vy))
        y = y + h2 * self.mlp(norm(y, r2))
        if not last:
            x = x + g1 * self.attn.out(attend(q, k, v, causal(x.shape[1], x.dtype)))
            x = x + g2 * self.mlp(norm(x, s2))
        return x, y


class ImageTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.img_in, self.proj_out = linear(LATENT, DIM), linear(DIM, LATENT)
        self.txt_in = nn.ModuleDict(dict(text_norm=Scale(T_DIM, 0.0), in_layer=linear(T_DIM, DIM), out_layer=linear(DIM, DIM)))
        self.time_text_embed = nn.ModuleDict(dict(timestep_embedder=nn.ModuleDict(dict(
            linear_1=linear(256, DIM), linear_2=linear(DIM, DIM)))))
        self.modulation = nn.Sequential(nn.SiLU(), linear(DIM, 4 * DIM))
        self.transformer_blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm_out = nn.ModuleDict(dict(linear=linear(DIM, DIM)))
        with torch.no_grad():                       # every gate starts near +0.4, every scale near 0
            s = F.silu(self.time(torch.linspace(0, 1, 64)[:, None])).mean(0)
            w = self.modulation[1].weight.mul_(0.1)
            for i in (1, 3):
                w[i * DIM:(i + 1) * DIM] += 0.4 * s / s.square().sum()
            self.norm_out.linear.weight.mul_(0.1)

    def time(self, t):
        a = 1000 * t * torch.exp(-math.log(10000) * torch.arange(128) / 128)
        e = self.time_text_embed.timestep_embedder
        return e.linear_2(F.silu(e.linear_1(torch.cat((a.cos(), a.sin()), -1).to(e.linear_1.weight.dtype))))

    def modulate(self, t, dtype):
        temb = self.time(t[:, None])
        s1, g1, s2, g2 = self.modulation(temb).unsqueeze(1).to(dtype).chunk(4, -1)
        return (s1, g1.tanh(), s2, g2.tanh()), self.norm_out.linear(F.silu(temb)).unsqueeze(1).to(dtype)

    @staticmethod
    def rope(f, r, c):
        a = torch.cat([p[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)
                       for p, d in ((f, HEAD // 8), (r, HEAD * 7 // 16), (c, HEAD * 7 // 16))], -1)
        return a.cos().contiguous(), a.sin().contiguous()

    def forward(self, text, latents, t, h=8, w=8):
        """text (B,n,T_DIM), latents (B*K,h*w,64), t (B*K) -> velocity (B*K,h*w,64)."""
        dtype, n = latents.dtype, text.shape[1]
        p = torch.arange(n).float()
        yy, xx = torch.meshgrid(torch.arange(h) - (h - h // 2), torch.arange(w) - (w - w // 2), indexing="ij")
        rope_x = self.rope(p, p, p)
        rope_y = self.rope(torch.full((h * w,), float(n)), yy.flatten().float(), xx.flatten().float())
        mod_x, _ = self.modulate(torch.zeros(1), dtype)
        mod_y, final = self.modulate(t, dtype)
        x = self.txt_in.out_layer(F.gelu(self.txt_in.in_layer(rms(text, self.txt_in.text_norm.weight + 1)), approximate="tanh"))
        y = self.img_in(latents)
        for i, block in enumerate(self.transformer_blocks):
            x, y = block(x, y, mod_x, mod_y, rope_x, rope_y, i == LAYERS - 1)
        return self.proj_out(F.layer_norm(y, (DIM,), eps=1e-6) * (1 + final))
