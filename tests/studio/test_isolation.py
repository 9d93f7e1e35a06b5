"""What a machine cannot lock in is told, and not drawn or read where it has to be."""

import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import urllib.error

import tap
from studio.rig import TOKEN, png
from studio.serve import PROGRAM, Serve

AROUND = (sys.executable, str(pathlib.Path(__file__).parents[1] / "without_landlock.py"))
INCOMPLETE = "the image worker is not locked in completely"
UNLOCKED = "the image worker cannot be locked in: "


class BestEffort(Serve):
    """On a machine without Landlock."""

    around = AROUND

    def __init__(self):
        super().__init__(image={})

    def isolation(self):
        (check,) = [one for one in self.get("/diagnostics")["checks"] if one["id"] == "isolation"]
        return check


class Required(BestEffort):
    of_studio = {"isolation": "required"}

    def __init__(self):
        Serve.__init__(self, image={"isolation": "required"})


class Isolation(unittest.TestCase):
    def test_what_the_worker_does_without_is_told_wherever_one_looks(self):
        with BestEffort() as rig:
            self.assertEqual(rig.isolation()["status"], "skipped")
            self.assertIsNone(rig.status()["image"]["isolation_missing"])
            rig.upload(png(32, 32))
            self.assertEqual(rig.isolation()["status"], "warning")
            rig.drawn("a boat")
            rig.route()
            check = rig.isolation()
            self.assertEqual(check["status"], "warning")
            self.assertIn("files", check["message"])
            self.assertIn("Landlock", check["action"])
            self.assertIn(check["message"], rig.get("/diagnostics/report").body.decode())
            status = rig.status()["image"]
            self.assertIn("files", status["isolation_missing"])
            self.assertIsNone(status["isolation_problem"])
            (line,) = [one for one in rig.log.splitlines() if INCOMPLETE in one]
            self.assertIn("files", line)
            self.assertIn("Landlock", line)

    def test_where_isolation_is_required_all_that_needs_a_worker_is_refused_with_the_reason(self):
        with Required() as rig:
            picture, order = png(32, 32), {"prompt": "a boat"}
            drawn_on = {**order, "init_images": [base64.b64encode(picture).decode()]}
            for method, path, body in (("POST", "/api/v1/inputs", picture),
                                       ("POST", "/api/v1/recipes/inspect", picture),
                                       ("POST", "/v1/images/generations", order),
                                       ("POST", "/api/v1/jobs", order),
                                       ("POST", "/sdcpp/v1/img_gen", order),
                                       ("POST", "/sdapi/v1/txt2img", order),
                                       ("POST", "/sdapi/v1/img2img", drawn_on)):
                with self.subTest(path=path):
                    kind = "image/png" if body is picture else "application/json"
                    answer = rig.send(method, path, body, type=kind)
                    self.assertEqual(answer.status, 503, answer.body)
                    self.assertIn(UNLOCKED, answer.body.decode())
            self.assertEqual(rig.get("/jobs")["items"], [])
            self.assertEqual([one["code"] for one in rig.post("/plan", order)["blocking"]], ["isolation_missing"])
            with self.assertRaises(urllib.error.HTTPError) as caught:
                rig.route()
            with caught.exception as answer:
                self.assertEqual(answer.status, 503)
                problem = json.load(answer)
            self.assertEqual(problem["code"], "image_isolation_missing")
            self.assertIn(UNLOCKED, problem["detail"])
            self.assertEqual(rig.status()["image"]["isolation_problem"], problem["detail"])
            self.assertEqual((rig.isolation()["status"], rig.isolation()["message"]), ("error", problem["detail"]))
            lines = [line for line in rig.log.splitlines() if "the image worker" in line]
            self.assertEqual([UNLOCKED in line for line in lines], [True], lines)
            self.assertIn(problem["detail"], lines[0])

    def test_what_cannot_be_locked_in_is_known_before_the_first_order(self):
        for path in ("/jobs", "/upscale"):
            with self.subTest(path=path), Required() as rig:
                answer = rig.post(path, {"prompt": "a boat"} if path == "/jobs" else {})
                self.assertEqual((answer.status, answer["code"]), (503, "isolation_missing"))
        with Required() as rig:
            plan = rig.post("/plan", {"prompt": "a boat"})
            self.assertEqual([one["code"] for one in plan["blocking"]], ["isolation_missing"])

    def test_a_picture_that_cannot_be_used_is_its_clients_fault_also_without_a_cage(self):
        with BestEffort() as rig:
            answer = rig.post("/inputs", b"\x89PNG\r\n\x1a\nnonsense", type="image/png")
            self.assertEqual((answer.status, answer["code"]), (422, "input_invalid"))

    def test_a_check_tells_before_anything_is_begun(self):
        for isolation in ("best-effort", "required"):
            with self.subTest(isolation=isolation), tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "config.json")
                with open(path, "w") as file:
                    json.dump({"listen": "127.0.0.1:1", "control": "127.0.0.1:2", "upstream": "127.0.0.1:3",
                               "state_dir": os.path.join(folder, "state"),
                               "studio": {"listen": "127.0.0.1:4", "isolation": isolation}}, file)

                def check(*more):
                    command = [*AROUND, PROGRAM, "check", "--config", path, *more]
                    own = {**os.environ, "KUNO_CONTROL_TOKEN": TOKEN}
                    return subprocess.run(command, capture_output=True, text=True, env=own).stdout

                told = json.loads(check("--json"))
                self.assertIn("files", told["isolation_missing"])
                warned = [one for one in told["warnings"] if one.startswith("studio.isolation: ")]
                self.assertEqual(len(warned), isolation == "required", told["warnings"])
                self.assertTrue(all("Landlock" in one for one in warned))


tap.main()
