"""Networks whose numbers run away: no picture is delivered, and the message says which stage it was."""

import tap
from kuno import E2E, Case, everything_in
from safetensors import join, split

HUGE = b"\x7f\x7f"  # the largest BF16


class RunAway(Case):
    def breaks(self, option, name, tensor, stage):
        header, data = split((E2E / name).read_bytes())
        begin, end = next(header[key] for key in header if key.endswith(tensor))["data_offsets"]
        data = data[:begin] + HUGE * ((end - begin) // 2) + data[end:]
        path = self.inputs / name
        path.write_bytes(join(header, data))
        result = self.kuno("generate", "a boat", "--config", E2E / "models.toml", "--size", "64x64", "--steps", "2",
                           option, path)
        self.assertEqual((result.code, everything_in(self.folder)), (1, []), result.err)
        self.assertIn(f"{stage}: holds NaN or infinity".encode() if isinstance(result.err, bytes)
                      else f"{stage}: holds NaN or infinity", result.err)

    def test_text_encoder(self):
        """an_encoder_that_overflows_is_named"""
        self.breaks("--text-encoder", "text_encoder.safetensors", "model.layers.1.mlp.down_proj.weight",
                    "text encoder output")

    def test_diffusion_model(self):
        """a_diffusion_model_that_overflows_is_named"""
        self.breaks("--diffusion-model", "transformer.safetensors", "proj_out.weight", "diffusion model output")

    def test_vae(self):
        """a_vae_that_overflows_is_named"""
        self.breaks("--vae", "vae.safetensors", "decoder.head.2.weight", "VAE output")


if __name__ == "__main__":
    tap.main()
