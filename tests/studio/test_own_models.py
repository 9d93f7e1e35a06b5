"""The user's own models.toml, which no configuration names: `kuno serve` draws with what `kuno generate` does."""

import os
import tempfile
import unittest

import tap
from studio.rig import png
from studio.serve import DEMO, PROFILE, Serve, write_bright_vae

OWN = {"diffusion": "~/demo/diffusion_model_fp8_scaled.safetensors", "demo": "~/demo", "vae": "~/bright.safetensors"}
TEXT_TO_IMAGE = "qwen-image-2.1-text-to-image/v1"
OLD_TEXT_TO_IMAGE = "qwen-image-2512-text-to-image/v1"


def profile(name):
    """One that draws brighter pictures than the built-in model."""
    return PROFILE.format(name=name, **OWN)


class Own(Serve):
    """In a home of its own. by: what says where the user's settings are."""

    names_models = False

    def __init__(self, by="HOME"):
        self.home = tempfile.TemporaryDirectory(prefix="kuno-home-")
        within = os.path.join(self.home.name, ".config" if by == "HOME" else "settings")
        os.makedirs(os.path.join(within, "kuno"))
        os.symlink(DEMO, os.path.join(self.home.name, "demo"))
        write_bright_vae(os.path.join(self.home.name, "bright.safetensors"))
        self.place = os.path.join(within, "kuno", "models.toml")
        self.environment = {"HOME": self.home.name, "XDG_CONFIG_HOME": "" if by == "HOME" else within}
        super().__init__(image={})

    def write(self, text):
        new = self.place + ".new"
        with open(new, "w") as file:
            file.write(text)
        os.replace(new, self.place)

    def close(self):
        super().close()
        self.home.cleanup()

    def drawn_by(self, name=None):
        """The pixels of a job's picture, the same as those of the route but for what draws."""
        more = {"profile": name} if name else {}
        size = {"mode": "custom", "width": 64, "height": 64}
        return self.drawn("a boat", seed="42", size=size, output={"transparent": True}, **more).pixels

    def active(self):
        return self.get("/status")["active_profile"]

    def workflows(self):
        return {one["id"] for one in self.controlled("images/workflows")["items"] if one["available"]}


class OwnModels(unittest.TestCase):
    def test_the_users_own_models_toml_is_drawn_with_wherever_it_is(self):
        for by in ("HOME", "XDG_CONFIG_HOME"):
            with self.subTest(by=by), Own(by) as rig:
                built_in, by_route = rig.drawn_by("demo"), rig.route()
                rig.write(profile("mine"))
                self.assertEqual([one["name"] for one in rig.get("/models")["items"] if one["ready"]],
                                 ["mine", "demo"])
                self.assertNotEqual(rig.drawn_by("mine"), built_in)
                self.assertNotEqual(rig.route(), by_route)

    def test_a_models_toml_that_comes_and_goes_holds_from_the_next_picture_on(self):
        with Own() as rig:
            built_in, by_route = rig.drawn_by("demo"), rig.route()
            rig.write(profile("mine"))
            bright, bright_by_route = rig.drawn_by("mine"), rig.route()
            rig.write(profile("yours"))
            self.assertEqual(rig.drawn_by("yours"), bright)
            self.assertEqual(rig.route(), bright_by_route)
            os.remove(rig.place)
            self.assertEqual(rig.drawn_by("demo"), built_in)
            self.assertEqual(rig.route(), by_route)

    def test_workflows_are_those_of_the_models_toml_that_there_is_now(self):
        with Own() as rig:
            built_in = rig.workflows()
            self.assertIn(TEXT_TO_IMAGE, built_in)
            self.assertNotIn(OLD_TEXT_TO_IMAGE, built_in)
            rig.write(profile("old").replace("qwen-image-2.1", "qwen-image").replace('"turbo"', '"base"'))
            self.assertEqual(rig.workflows(), built_in | {OLD_TEXT_TO_IMAGE})
            self.assertEqual(set(rig.status()["image"]["workflows"]), rig.workflows())
            os.remove(rig.place)
            self.assertEqual(rig.workflows(), built_in)

    def test_default_model_draws_what_names_no_profile_for_every_client(self):
        with Own() as rig:
            built_in = rig.drawn_by()
            rig.write('default_model = "mine"\n' + profile("first") + profile("mine"))
            self.assertEqual((rig.active(), rig.get("/status")["setup_needed"]), ("mine", False))
            self.assertEqual([one["name"] for one in rig.get("/models")["items"] if one["active"]], ["mine"])
            self.assertEqual(rig.send("GET", "/v1/models")["data"][0]["id"], "mine")
            self.assertEqual(rig.send("GET", "/sdapi/v1/options")["sd_model_checkpoint"], "mine")
            bright = rig.drawn_by()
            self.assertNotEqual(bright, built_in)
            self.assertEqual(rig.drawn_by("mine"), bright)
            self.assertEqual(rig.drawn_by("demo"), built_in)

    def test_a_profile_that_was_activated_goes_before_default_model(self):
        with Own() as rig:
            rig.write('default_model = "mine"\n' + profile("mine") + profile("yours"))
            self.assertEqual(rig.post("/models/yours/activate").status, 200)
            self.assertEqual(rig.active(), "yours")
            rig.end()
            rig.begin()
            self.assertEqual(rig.active(), "yours")
            rig.write('default_model = "mine"\n' + profile("mine"))
            self.assertEqual(rig.active(), "mine")

    def test_the_older_form_of_the_file_is_a_choice_too(self):
        with Own() as rig:
            rig.write(profile("mine") + '[models]\ncheckpoint = "~/bright.safetensors"\n')
            self.assertEqual(rig.active(), "legacy")

    def test_without_a_choice_nothing_is_drawn_that_nobody_asked_for(self):
        with Own() as rig:
            source = rig.upload(png(32, 32))
            rig.write(profile("mine") + profile("yours"))
            self.assertEqual((rig.active(), rig.get("/status")["setup_needed"]), (None, True))
            answer = rig.post("/jobs", {"prompt": "a boat"})
            self.assertEqual((answer.status, answer["errors"][0]["pointer"]), (422, "/profile"))
            self.assertIn("default_model", answer["detail"])
            answer = rig.send("POST", "/v1/images/generations", {"prompt": "a boat"})
            self.assertEqual(answer.status, 404)
            self.assertIn("default_model", answer["error"]["message"])
            checks = {one["id"]: one["message"] for one in rig.get("/diagnostics")["checks"]}
            self.assertEqual(checks["model"], "No model is chosen")
            for path in ("/api/v1/capabilities", "/sdcpp/v1/capabilities", "/v1/models", "/sdapi/v1/options"):
                self.assertEqual(rig.send("GET", path).status, 200, path)
            job = rig.post("/upscale", {"input_id": source, "upscale": {"factor": 2}})
            self.assertEqual(rig.ended(job["id"])["state"], "completed")
            rig.drawn_by("mine")
            self.assertEqual(rig.post("/models/mine/activate").status, 200)
            self.assertEqual(rig.active(), "mine")
            rig.drawn_by()


tap.main()
