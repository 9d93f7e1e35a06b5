"""`kuno serve` on a disk that is full or may not be written: nothing half is left, nothing is lost, and it goes on when
that is over."""

import contextlib
import os
import random
import signal
import tempfile
import time

import tap
from disk import Disk, DiskCase
from studio import agreement
from studio.crowd import Crowd
from studio.rig import png
from studio.serve import LONG, Serve

JOBS = int(os.environ.get("STRESS_JOBS", "30"))
CLIENTS = int(os.environ.get("STRESS_CLIENTS", "10"))
TIMES = int(os.environ.get("STRESS_FULL", "4"))
DISK_BYTES = 128 << 20


class Full(DiskCase):
    def setUp(self):
        super().setUp()
        self.folder = self.folder_for_a_disk()
        self.disk = self.mount(self.folder, DISK_BYTES)

    def folder_for_a_disk(self):
        folder = tempfile.mkdtemp(prefix="kuno-disk-")
        self.addCleanup(os.rmdir, folder)
        return folder

    def test_jobs_end_once_and_whole_while_the_disk_is_full_again_and_again(self):
        with Serve(self.folder) as rig:
            rig.ended(rig.job())
            with Crowd(rig, JOBS, CLIENTS) as crowd:
                for left in random.Random(1).sample(range(0, 96 << 10, 4096), TIMES):
                    time.sleep(random.random() * 0.5)
                    self.disk.fill(left)
                    time.sleep(1 + random.random())
                    self.disk.make_room()
            jobs = agreement.check(self, rig)
            self.assertLessEqual(set(crowd.own), {job["id"] for job in jobs})
            self.assertLessEqual(set(crowd.refusals), {"disk_full"})
            self.assertLessEqual({(job["error"] or {}).get("code") for job in jobs}, {None, "disk_full"})

    def test_a_full_disk_is_told_and_nothing_else_is_lost(self):
        with Serve(self.folder, image={}) as rig:
            kept, picture = rig.ended(rig.job())["results"][0]["gallery_item"], rig.route()
            runs = rig.job("a boat", **LONG)
            with rig.held(runs):  # filling may take longer than drawing
                self.disk.fill()
            plan = rig.post("/plan", {"prompt": "a"})
            self.assertEqual([note["code"] for note in plan["blocking"]], ["disk_full"])
            for answer in (rig.post("/jobs", {"prompt": "a"}), rig.post("/inputs", png(50, 50), type="image/png")):
                self.assertEqual((answer.status, answer["code"]), (507, "disk_full"))
            for path in ("/v1/images/generations", "/sdapi/v1/txt2img", "/sdcpp/v1/img_gen"):
                answer = rig.send("POST", path, {"prompt": "a"})
                self.assertEqual(answer.status, 507)
                self.assertIn(b"64 MiB are free", answer.body)
            for path in ("/health", "/jobs", f"/gallery/{kept}", f"/gallery/{kept}/content"):
                self.assertEqual(rig.get(path).status, 200)
            self.assertEqual(rig.route(), picture)  # which nothing is kept of
            time.sleep(1)
            self.disk.make_room()
            ended = rig.ended(runs)
            self.assertEqual((ended["state"], ended["error"]["code"]), ("failed", "disk_full"))
            self.assertEqual(rig.ended(rig.job())["state"], "completed")
            agreement.check(self, rig)

    def test_on_a_full_disk_jobs_are_cancelled_and_what_is_not_wanted_is_removed(self):
        with Serve(self.folder) as rig:
            over = rig.ended(rig.job())
            item = over["results"][0]["gallery_item"]
            runs, waits = rig.job("a boat", batch=8), rig.job("waits")
            with rig.held(runs):
                self.disk.fill()
                for job in (waits, runs):
                    answer = rig.post(f"/jobs/{job}/cancel")
                    self.assertIn(answer.status, (200, 202), answer.body)
                for path in (f"/gallery/{item}", f"/jobs/{over['id']}"):
                    answer = rig.ask("DELETE", path)
                    self.assertIn(answer.status, (200, 204), answer.body)
            for job in (runs, waits):
                self.assertEqual(rig.ended(job)["state"], "cancelled")
            self.disk.make_room()
            self.assertEqual(rig.ended(rig.job())["state"], "completed")
            agreement.check(self, rig)

    def test_the_service_begins_on_a_full_disk(self):
        with Serve(self.folder) as rig:
            runs = rig.job("a boat", batch=8)
            with rig.held(runs):
                self.disk.fill()
                rig.end(signal.SIGKILL)
            rig.begin()
            self.disk.make_room()
            self.assertIn(rig.ended(runs)["state"], ("completed", "failed"))
            self.assertEqual(rig.ended(rig.job())["state"], "completed")
            agreement.check(self, rig)

    def test_a_death_on_a_full_disk_is_recovered_from_when_there_is_room(self):
        with Serve(self.folder) as rig:
            runs, waits = rig.job("a boat", **LONG), rig.job("waits")
            rig.running(runs, 1)
            self.disk.fill()
            rig.end(signal.SIGKILL)
            rig.begin_after_death()  # it may say that there is no room
            self.disk.make_room()
            if rig.process.poll() is not None:
                rig.begin()
            rig.begun()
            self.assertIn(rig.ended(runs)["state"], ("completed", "failed"))
            self.assertEqual(rig.ended(waits)["state"], "completed")
            agreement.check(self, rig)

    def gateway_alone(self, rig, code):
        """What everybody is told while the studio's storage cannot be written at a start."""
        rig.begin((503,))
        self.assertEqual(rig.status()["mode"], "gateway")
        for answer in (rig.get("/jobs"), rig.post("/jobs", {"prompt": "a"}), rig.get("/health", token=None)):
            self.assertEqual((answer.status, answer["code"]), (503, code), answer.body)
        for path in ("/v1/images/generations", "/sdapi/v1/txt2img", "/sdcpp/v1/img_gen"):
            answer = rig.send("POST", path, {"prompt": "a"})
            self.assertEqual(answer.status, 503)
            self.assertIn(b"begins when its folder can be written", answer.body)
        self.assertEqual(rig.send("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"}).status, 503)

    def test_the_gateway_serves_while_the_studio_has_no_room_to_begin_in(self):
        with Serve(self.folder) as rig:
            item = rig.ended(rig.job())["results"][0]["gallery_item"]
            rig.end()
            os.unlink(os.path.join(rig.folder, "studio", "reserve"))
            disk = Disk(os.path.join(rig.folder, "studio"), DISK_BYTES)
            try:
                disk.fill()
                self.gateway_alone(rig, "disk_full")
                disk.make_room()
                rig.begun()
                self.assertEqual(rig.ended(rig.job())["state"], "completed")
                disk.fill()
                rig.end()
            finally:
                disk.close()
            rig.begin()
            self.assertEqual(rig.get(f"/gallery/{item}").status, 200)

    def test_the_gateway_serves_while_the_studio_may_write_nothing(self):
        with Serve(self.folder) as rig:
            rig.end()
            disk = Disk(os.path.join(rig.folder, "studio"), DISK_BYTES)
            try:
                rig.begin()
                item = rig.ended(rig.job())["results"][0]["gallery_item"]
                rig.end()
                disk.protect()
                self.gateway_alone(rig, "storage_readonly")
                self.assertEqual(rig.end(), 0)  # it ends as one that has begun
                rig.begin((503,))
                disk.protect(False)
                rig.begun()
                self.assertEqual(rig.get(f"/gallery/{item}").status, 200)
                rig.end()
            finally:
                disk.close()

    @contextlib.contextmanager
    def gallery_on_its_own_disk(self):
        with Serve(self.folder) as rig:
            rig.end()
            disk = Disk(os.path.join(rig.folder, "studio", "gallery"), DISK_BYTES)
            try:
                rig.begin()
                yield rig, disk
            finally:
                rig.end()
                disk.close()

    def test_what_is_deleted_from_a_gallery_on_its_own_disk_stays_on_that(self):
        with self.gallery_on_its_own_disk() as (rig, disk):
            item = rig.ended(rig.job())["results"][0]["gallery_item"]
            files = agreement.names(rig, "gallery")
            disk.fill()
            self.assertEqual(rig.ask("DELETE", f"/gallery/{item}").status, 204)
            disk.make_room()
            self.assertEqual(agreement.names(rig, agreement.TRASH), files)
            agreement.check(self, rig)

    def test_a_full_disk_of_the_gallery_is_told_before_anything_is_drawn(self):
        with self.gallery_on_its_own_disk() as (rig, disk):
            disk.fill()
            answer = rig.post("/jobs", {"prompt": "a"})
            self.assertEqual((answer.status, answer["code"]), (507, "disk_full"))
            self.assertEqual(rig.ended(rig.job(output={"save_to_gallery": False}))["state"], "completed")
            disk.make_room()
            self.assertEqual(rig.ended(rig.job())["state"], "completed")
            agreement.check(self, rig)

    def test_a_gallery_that_may_not_be_written_is_no_full_disk(self):
        with self.gallery_on_its_own_disk() as (rig, disk):
            item = rig.ended(rig.job())["results"][0]["gallery_item"]
            runs = rig.job("a boat", **LONG)
            with rig.held(runs):
                disk.protect()
            for answer in (
                rig.post("/jobs", {"prompt": "a"}),
                rig.ask("PATCH", f"/gallery/{item}", {"favorite": True}),
                rig.ask("DELETE", f"/gallery/{item}"),
            ):
                self.assertEqual((answer.status, answer["code"]), (507, "storage_readonly"), answer.body)
                self.assertIn("mount the disk for writing", answer["title"])
                self.assertIn("Read-only file system", answer["detail"])
            for path in ("/v1/images/generations", "/sdapi/v1/txt2img", "/sdcpp/v1/img_gen"):
                answer = rig.send("POST", path, {"prompt": "a"})
                self.assertEqual(answer.status, 507)
                self.assertIn(b"Read-only file system", answer.body)
            self.assertEqual(rig.get(f"/gallery/{item}").status, 200)
            ended = rig.ended(runs)
            self.assertEqual((ended["state"], ended["error"]["code"]), ("failed", "storage_readonly"))
            disk.protect(False)
            self.assertEqual(rig.ask("DELETE", f"/gallery/{item}").status, 204)
            self.assertEqual(rig.ended(rig.job())["state"], "completed")
            agreement.check(self, rig)

    def test_the_service_begins_with_a_gallery_that_may_not_be_written(self):
        with self.gallery_on_its_own_disk() as (rig, disk):
            item = rig.ended(rig.job())["results"][0]["gallery_item"]
            rig.end()
            disk.protect()
            rig.begin()
            self.assertIn("'gallery' cannot be written: Read-only file system", rig.log)
            self.assertEqual(rig.get(f"/gallery/{item}/content").status, 200)
            answer = rig.post("/jobs", {"prompt": "a"})
            self.assertEqual((answer.status, answer["code"]), (507, "storage_readonly"), answer.body)
            plan = rig.post("/plan", {"prompt": "a"})
            self.assertEqual([note["code"] for note in plan["blocking"]], ["storage_readonly"])
            elsewhere = {"output": {"save_to_gallery": False}}
            self.assertEqual(rig.post("/plan", {"prompt": "a", **elsewhere})["blocking"], [])
            self.assertEqual(rig.ended(rig.job(**elsewhere))["state"], "completed")
            disk.protect(False)
            self.assertEqual(rig.ended(rig.job())["state"], "completed")
            agreement.check(self, rig)

    def test_a_copy_into_a_folder_that_may_not_be_written_is_refused_as_that(self):
        target = self.folder_for_a_disk()
        disk = self.mount(target, 1 << 20)
        os.mkdir(os.path.join(target, "taken.png"))
        disk.protect()
        with Serve(self.folder) as rig:
            item = rig.ended(rig.job())["results"][0]["gallery_item"]
            for name, refusal in (("taken.png", (409, "file_exists")), ("new.png", (507, "storage_readonly"))):
                answer = rig.post(f"/gallery/{item}/export", {"directory": target, "file_name": name})
                self.assertEqual((answer.status, answer["code"]), refusal)


tap.main()
