"""Single-frame forward pass of AutoencoderKLQwenImage21, written for speed on a CPU.

The parameters stay in the diffusers module, so its state dict is what gets exported; only the arithmetic is
re-expressed with 2-D channels-last tensors. check() proves both paths equal.
"""
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKLQwenImage21

from fused import LIB, num, ptr

CONFIG = dict(base_dim=8, decoder_base_dim=8, z_dim=64, dim_mult=[1, 2, 4, 8, 8], num_res_blocks=1,
              temperal_downsample=[False, True, True, True])


def build(blocks=1):
    return AutoencoderKLQwenImage21(**{**CONFIG, "num_res_blocks": blocks})


def load(path, blocks=None):
    """A trained autoencoder with one or two residual blocks per stage; blocks that the file lacks become identities."""
    state = torch.load(path)
    stored = 2 if "decoder.up_blocks.0.resnets.2.conv1.weight" in state else 1
    model = build(blocks or stored)
    want = model.state_dict()
    for k in want.keys() - state.keys():
        if k.endswith(("conv2.weight", "conv2.bias")):
            want[k].zero_()
    model.load_state_dict(want | state)
    return model.to(memory_format=torch.channels_last)


class NormSiLU(torch.autograd.Function):
    """Fused RMS norm + SiLU for channels-last bfloat16 tensors (fused.c)."""

    @staticmethod
    def forward(ctx, x, g):
        x = x.contiguous(memory_format=torch.channels_last)
        g = g.detach().float().flatten()
        y = torch.empty_like(x)
        kernel(x, g, None, y, None)
        ctx.save_for_backward(x, g)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, g = ctx.saved_tensors
        dy = dy.contiguous(memory_format=torch.channels_last)
        dx, dg = torch.empty_like(x), torch.empty_like(g)
        kernel(x, g, dy, dx, dg)
        return dx, dg.view(-1, 1, 1, 1)


def kernel(x, g, dy, y, dg):
    bad = LIB.norm_silu(ptr(x), ptr(g), ptr(dy), ptr(y), ptr(dg), num(x.numel() // x.shape[1]), x.shape[1])
    assert not bad, "channel count not compiled in"


def norm_silu(x, g):
    if x.dtype == torch.bfloat16:
        return NormSiLU.apply(x, g)
    return F.silu(F.normalize(x, dim=1) * x.shape[1] ** 0.5 * g.view(1, -1, 1, 1))


def conv(c, x, pad=None):
    return F.conv2d(x, c.weight.to(x.dtype), c.bias.to(x.dtype), stride=c.stride, padding=c.kernel_size[0] // 2 if pad is None else pad)


def resnet(r, x):
    h = conv(r.conv1, norm_silu(x, r.norm1.gamma))
    h = conv(r.conv2, norm_silu(h, r.norm2.gamma))
    return h + (x if isinstance(r.conv_shortcut, torch.nn.Identity) else conv(r.conv_shortcut, x))


def attention(a, x):
    b, c, h, w = x.shape
    n = F.normalize(x.float(), dim=1).to(x.dtype) * a.norm.scale * a.norm.gamma.view(1, -1, 1, 1).to(x.dtype)
    q, k, v = conv(a.to_qkv, n).flatten(2).transpose(1, 2).unsqueeze(1).chunk(3, -1)
    o = F.scaled_dot_product_attention(q, k, v).squeeze(1).transpose(1, 2).reshape(b, c, h, w)
    return x + conv(a.proj, o)


def mid(m, x):
    return resnet(m.resnets[1], attention(m.attentions[0], resnet(m.resnets[0], x)))


def avg_down(s, x):
    """AvgDown3D on one frame: 2x2 mean; the missing earlier frame yields zero channels in the temporal stages."""
    if s.factor_s == 1:
        return x
    p = F.avg_pool2d(x, 2)
    return p if s.factor_t == 1 else torch.stack([torch.zeros_like(p), p], 2).flatten(1, 2)


def dup_up(s, x):
    """DupUp3D on one frame, first chunk: the later of the two frames, each channel spread over a 2x2 square."""
    if s.in_channels == s.out_channels:
        return F.interpolate(x, scale_factor=2, mode="nearest")
    if s.factor_t == 2:
        return F.interpolate(x[:, 1::2], scale_factor=2, mode="nearest")
    return torch.stack([x[:, 0::2], x[:, 1::2]], 3).flatten(2, 3).repeat_interleave(2, -1)


def encode(m, x):
    """(B,4,H,W) in [-1,1] -> mean, log-variance, each (B,64,H/16,W/16)."""
    e, h = m.encoder, conv(m.encoder.conv_in, x)
    for b in e.down_blocks:
        s = avg_down(b.avg_shortcut, h)
        for r in b.resnets:
            h = resnet(r, h)
        if b.downsampler is not None:
            h = conv(b.downsampler.resample[1], F.pad(h, (0, 1, 0, 1)), 0)
        h = h + s
    h = conv(e.conv_out, norm_silu(mid(e.mid_block, h), e.norm_out.gamma))
    return conv(m.quant_conv, h).float().chunk(2, 1)


def decode(m, z):
    d, h = m.decoder, conv(m.decoder.conv_in, conv(m.post_quant_conv, z))
    h = mid(d.mid_block, h)
    for b in d.up_blocks:
        s = h
        for r in b.resnets:
            h = resnet(r, h)
        if b.upsampler is not None:
            h = conv(b.upsampler.resample[1], F.interpolate(h, scale_factor=2, mode="nearest"))
            h = h + dup_up(b.avg_shortcut, s)
    return conv(d.conv_out, norm_silu(h, d.norm_out.gamma)).float()


@torch.no_grad()
def check(m):
    x = torch.rand(2, 4, 128, 128) * 2 - 1
    mu = m.encode(x.unsqueeze(2)).latent_dist.mean[:, :, 0]
    a, b = m.decode(mu.unsqueeze(2)).sample[:, :, 0], decode(m, encode(m, x)[0]).clamp(-1, 1)
    print("encode", (mu - encode(m, x)[0]).abs().max().item(), "decode", (a - b).abs().max().item())


if __name__ == "__main__":
    m = build()
    print(sum(p.numel() for p in m.encoder.parameters()), sum(p.numel() for p in m.decoder.parameters()))
    check(m)
