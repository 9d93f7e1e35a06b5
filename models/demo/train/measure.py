"""Measure the exported files: does the right picture come out?  measure.py WORK MODEL_FOLDER [--fp8]

Every learned name (three seeds) and sixty sentences that training never saw are drawn with the 8-step Turbo schedule at
128x128. A drawing is right when the nearest of ALL learned pictures is the one asked for. Distance: mean squared error over
premultiplied RGBA pixels in 0..1. "X" and "X face" are one motif (a dog / a dog's face), because plain English does not tell
them apart; nothing else is forgiven. Exit status 1 below 95 % (names) or 80 % (sentences).

WORK holds images.npy and prompts.json (data.py, captions.py); only MODEL_FOLDER's files are used for drawing.
"""
import argparse
import json
import re
import sys

import numpy as np
import torch
from diffusers import AutoencoderKLQwenImage21
from safetensors.torch import load_file
from tokenizers import Tokenizer

import model as M
import vae
from encode import grid
from export import wan_names
from pipeline import dequantize
from sample import sample
from train_diffusion import TURBO

NEED_NAMES, NEED_SENTENCES = 0.95, 0.80
# Fixed before any result was seen, and not changed since. None of them may occur among the training captions (checked below).
SENTENCES = [
    ("my brother peeled a banana all by himself", "banana"), ("nothing beats a juicy strawberry", "strawberry"),
    ("who left this carrot here?", "carrot"), ("we shared one large pizza yesterday", "pizza"),
    ("grandpa's favourite hamburger", "hamburger"), ("the last doughnut that was left", "doughnut"),
    ("a fox came walking out of nowhere", "fox"), ("the lion that everybody is afraid of", "lion"),
    ("a panda sitting very still", "panda"), ("three cheers for the penguin", "penguin"),
    ("did you hear the owl?", "owl"), ("an old frog who never jumps", "frog"),
    ("one single butterfly flew past us", "butterfly"), ("the honeybee who works all day", "honeybee"),
    ("she handed him a rose without a word", "rose"), ("the tallest sunflower i have ever seen", "sunflower"),
    ("be careful with that cactus", "cactus"), ("a rocket ready to take off", "rocket"),
    ("our airplane leaves in an hour", "airplane"), ("waiting for the bus again", "bus"),
    ("a sailboat far away from everything", "sailboat"), ("look up, there is a rainbow", "rainbow"),
    ("the neighbours built a snowman together", "snowman"), ("somebody let go of a balloon", "balloon"),
    ("kick the soccer ball to me", "soccer ball"), ("a guitar nobody plays anymore", "guitar"),
    ("whose crown could this be", "crown"), ("i cannot find the key anywhere", "key"),
    ("change the light bulb, will you", "light bulb"), ("is that a ghost over there?", "ghost"),
    ("a robot that does my homework", "robot"), ("some grapes would be great now", "grapes"),
    ("a pineapple from far far away", "pineapple"), ("squeeze the lemon as hard as you can", "lemon"),
    ("eat your broccoli first", "broccoli"), ("an elephant who never forgets", "elephant"),
    ("a turtle taking it slowly", "turtle"), ("do not step on the snake", "snake"),
    ("an octopus with plans of its own", "octopus"), ("the crab went sideways", "crab"),
    ("they live in a castle these days", "castle"), ("take an umbrella with you just in case", "umbrella"),
    ("a bicycle leaning against something", "bicycle"), ("the winner took home the trophy", "trophy"),
    ("has anyone seen my scissors", "scissors"), ("the unicorn she dreamed about", "unicorn"),
    ("a shark is coming closer", "shark"), ("say hello to the astronaut", "astronaut"),
    ("hello there, little giraffe", "giraffe"), ("a kangaroo on its way home", "kangaroo"),
    ("our parrot talks too much", "parrot"), ("the camel did not want to go further", "camel"),
    ("he never goes anywhere without his backpack", "backpack"), ("where did i put the hammer", "hammer"),
    ("please pass me the magnet", "magnet"), ("a violin worth a fortune", "violin"),
    ("they sleep in a tent every summer", "tent"), ("there goes another tornado", "tornado"),
    ("just one more croissant", "croissant"), ("a microscope for curious people", "microscope")]


def motif(name):
    return re.sub(r" face$", "", name)


def words(text):
    return " ".join(re.findall(r"[a-z0-9'-]+", text.lower()))


def premultiplied(rgba):
    """(N,4,H,W) in 0..1 -> (N, 4*H*W)."""
    return torch.cat([rgba[:, :3] * rgba[:, 3:], rgba[:, 3:]], 1).flatten(1)


class Pictures:
    """All learned pictures, and which of them is nearest to a drawing."""

    def __init__(self, work):
        data = json.load(open(f"{work}/prompts.json"))
        self.names = [data["names"][k] for k in data["core"]]
        self.captions = {words(p) for k in data["core"] for p in data["prompts"][k]}
        rows = [data["index"][k] for k in data["core"]]
        self.table = premultiplied(torch.from_numpy(np.load(f"{work}/images.npy")[rows]).permute(0, 3, 1, 2) / 255)

    def nearest(self, rgba):
        return torch.cat([torch.cdist(p, self.table).argmin(1) for p in premultiplied(rgba).split(64)]).tolist()

    def error(self, rgba, name):
        return (premultiplied(rgba) - self.table[[self.names.index(n) for n in name]]).square().mean(1)

    def same(self, a, b):
        return motif(a) == motif(b)


class Model:
    """The exported files in the fast float32 networks (check.py proves them equal to the reference classes)."""

    def __init__(self, folder, fp8):
        suffix = "_fp8_scaled" if fp8 else ""
        read = lambda name: dequantize(load_file(f"{folder}/{name}.safetensors"))
        self.net = torch.nn.ModuleDict(dict(text=M.TextEncoder(), image=M.ImageTransformer()))
        self.net["text"].load_state_dict({k.removeprefix("model."): v for k, v in read("text_encoder" + suffix).items()})
        self.net["image"].load_state_dict(read("diffusion_model" + suffix))
        self.coder, stored = AutoencoderKLQwenImage21(**{**vae.CONFIG, "num_res_blocks": 2}), read("vae")
        state = self.coder.state_dict()
        self.coder.load_state_dict({k: stored[n].reshape(v.shape) for (k, v), n in zip(state.items(), wan_names(state))})
        mean, std = (torch.tensor(self.coder.config[k]).view(-1, 1, 1) for k in ("latents_mean", "latents_std"))
        self.denormal = lambda z: z * std + mean
        self.tok = Tokenizer.from_file(f"{folder}/tokenizer/tokenizer.json")

    @torch.no_grad()
    def draw(self, prompts, seeds):
        """RGBA in 0..1, one torch seed per picture."""
        noise = torch.stack([torch.randn(64, 8, 8, generator=torch.Generator().manual_seed(s)) for s in seeds])
        z = self.denormal(sample(self.net, self.tok, prompts, TURBO, noise))
        return torch.cat([vae.decode(self.coder, x) for x in z.split(32)]).clamp(-1, 1).add(1).div(2)


def main(args):
    torch.set_num_threads(args.threads)
    known = Pictures(args.work)
    names = known.names
    assert len({n for _, n in SENTENCES}) == len(SENTENCES) == 60
    assert not [s for s, _ in SENTENCES if words(s) in known.captions], "a test sentence is among the training captions"
    assert all(n in names for _, n in SENTENCES), "a test sentence asks for a picture that was not learned"

    asked = [(n, n, 3 * k + s) for k, n in enumerate(names) for s in range(args.seeds)]      # prompt, picture, torch seed
    asked += [(s, n, 5000 + k) for k, (s, n) in enumerate(SENTENCES)]
    drawn = Model(args.folder, args.fp8).draw([a[0] for a in asked], [a[2] for a in asked])
    near, error = known.nearest(drawn), known.error(drawn, [a[1] for a in asked])
    right = torch.tensor([known.same(names[g], a[1]) for g, a in zip(near, asked)])
    cut = args.seeds * len(names)
    for (prompt, name, seed), ok, g, e in zip(asked, right.tolist(), near, error.tolist()):
        if not ok:
            print(f"wrong: {prompt!r} seed {seed} wanted {name!r} nearest {names[g]!r} error {e:.4f}")
    worst = error[:cut].view(-1, args.seeds).mean(1).sort(descending=True)
    print("largest errors:", ", ".join(f"{names[k]} {e:.4f}" for e, k in zip(worst.values[:12].tolist(), worst.indices[:12].tolist())))
    result = {"pictures": len(names), "names_right": right[:cut].float().mean().item(), "name_drawings": cut,
              "sentences_right": right[cut:].float().mean().item(), "sentences": len(SENTENCES),
              "psnr_right_names": (-10 * error[:cut][right[:cut]].log10()).mean().item()}
    result = {k: round(v, 4) for k, v in result.items()}
    print(json.dumps(result))
    if args.report:
        json.dump(result, open(args.report, "w"), indent=1)
    if args.sheet:                                               # first seed of every name, then the sentences
        grid(torch.cat([drawn[:cut:args.seeds], drawn[cut:]]) * 2 - 1, 20).save(args.sheet)
    return result["names_right"] >= NEED_NAMES and result["sentences_right"] >= NEED_SENTENCES


if __name__ == "__main__":
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("work")
    cli.add_argument("folder")
    cli.add_argument("--fp8", action="store_true", help="measure the scaled-FP8 set")
    cli.add_argument("--report", help="write the shares to this JSON file")
    cli.add_argument("--sheet", help="write a contact sheet of what was drawn")
    cli.add_argument("--seeds", type=int, default=3, help="drawings per name; fewer only for a quick look")
    cli.add_argument("--threads", type=int, default=1)
    sys.exit(0 if main(cli.parse_args()) else 1)
