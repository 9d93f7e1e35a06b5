"""Workers on graphics cards, both of which are pretended: stub_worker.py and the fake driver of tests/gpu."""

import os
import pathlib
import re
import unittest

import tap
from harness import PATIENCE, Server
from test_control import OWNER, WHY_NOT as NO_DOCUMENT, Document
from workers import Workers

FAKES = pathlib.Path(os.environ.get("KUNO_FAKES", "/nowhere"))
GIB = 1 << 30
PLACES = ["0000:04:00.0", "0000:2d:00.0"]
UUIDS = [f"GPU-1111111{i}-2222-3333-4444-555555555555" for i in range(2)]


@unittest.skipUnless((FAKES / "v2").is_dir(), "the fakes of drivers were not built")
class Cards(Workers):
    """Two cards of 12 GiB with a worker each; a model takes 1 GiB."""

    def setUp(self):
        super().setUp()
        self.world = self.folder / "scenario"
        self.world.write_text("".join(
            f"nvml uuid={uuid} pci={place} name=Fake total={12 * GIB} used={GIB} reserved=0\n"
            for uuid, place in zip(UUIDS, PLACES)))

    def device(self, worker):
        return {"backend": "cuda", "uuid": UUIDS[worker], "pci_address": PLACES[worker]}

    def usual(self, worker):
        line = f'id={UUIDS[worker]} library=CUDA name=CUDA0 driver=13.0 pci_id={PLACES[worker]} type=discrete'
        return {"devices": [line], "card": [str(self.folder / "scenario"), PLACES[worker]], "bytes": GIB, "vram": 1}

    def drivers(self):
        return {"KUNO_FAKE_GPU": str(self.world), "LD_LIBRARY_PATH": str(FAKES / "v2")}

    def start(self, most=4, **more):
        return super().start(most, env=self.drivers(), **more)

    def add_to_world(self, line):
        self.world.write_text(self.world.read_text() + line + "\n")

    def use(self, worker, gib):
        """Somebody else uses so much of a card."""
        self.world.write_text(re.sub(rf"(pci={PLACES[worker]} .*used=)(\d+)",
                                     lambda m: m[1] + str(int(m[2]) + gib * GIB), self.world.read_text()))

    def only(self, worker):
        """The other card is full."""
        self.use(1 - worker, 11)


class Placing(Cards):
    def test_empty(self):
        """a_model_that_was_never_loaded_goes_to_the_card_that_is_empty"""
        server = self.start()
        first = self.place(server.generate(model="tiny"))
        second = self.place(server.generate(model="other:7b"))
        self.assertNotEqual(first, second)
        self.assertEqual(self.place(server.generate(model="tiny")), first)
        self.assertEqual(self.notes(start="unload"), [])

    def test_alone(self):
        """it_is_alone_the_first_time_and_beside_others_afterwards"""
        self.only(0)
        server = self.start()
        self.assertEqual(self.place(server.generate(model="tiny")), 0)
        self.assertEqual(self.place(server.generate(model="other:7b")), 0)
        self.assertEqual(self.notes(0, "unload"), ["unload tiny:latest"])
        self.assertEqual(self.place(server.generate(model="tiny")), 0)  # known by now
        self.assertEqual(self.place(server.generate(model="other:7b")), 0)
        self.assertEqual(self.notes(0, "unload"), ["unload tiny:latest"])
        self.assertEqual(len(self.notes(0, "load")), 3)
        resident = self.workers(server)[0]["resident"]
        self.assertEqual([(m["model"], m["residency"]) for m in resident],
                         [("other:7b", "gpu"), ("tiny:latest", "gpu")])

    def test_strangers(self):
        """memory_that_others_use_is_not_given_away"""
        server = self.start()
        first = self.place(server.generate(model="tiny"))
        self.use(first, 10)  # beside 1 GiB of ours and 1 of the desktop's, nothing is left there
        self.assertEqual(self.place(server.generate(model="other:7b")), 1 - first)
        self.use(1 - first, 10)
        self.upstream.models["third:latest"] = "c" * 64
        for home in self.homes:
            self.set_stub(home)
        server.ask("POST", "/api/copy", {})  # the catalogue has changed
        self.assertEqual(server.generate(model="third")[0], 200)  # one of ours has made room
        self.assertEqual(len(self.notes(start="unload")), 1)

    def test_taken(self):
        """if_nothing_of_ours_can_make_room_the_request_is_refused"""
        self.use(0, 11)
        self.use(1, 11)
        server = self.start()
        status, headers, body = server.generate(model="tiny")
        self.assertEqual((status, headers["Retry-After"]), (503, "5"))
        self.assertIn(b"taken", body)
        self.assertEqual(self.notes(start="load"), [])

    def test_reserve(self):
        """a_reserve_that_leaves_nothing_is_told_as_it_is"""
        server = self.start(reserve=13 * GIB)
        status, headers, body = server.generate(model="tiny")
        self.assertEqual((status, headers["x-should-retry"]), (503, "false"))
        self.assertIn(b"larger than any device", body)

    def test_unknown(self):
        """memory_that_is_not_known_is_no_room"""
        self.add_to_world("fail DeviceGetMemoryInfo_v2 999")
        server = self.start()
        status, _, body = server.generate(model="tiny")
        self.assertEqual(status, 503)
        self.assertIn(b"no device is known", body)
        self.assertEqual(self.notes(start="load"), [])

    def test_hang(self):
        """a_driver_that_hangs_costs_a_request_three_seconds_and_others_nothing"""
        server = self.start()
        self.place(server.generate(model="tiny"))
        self.add_to_world("hang DeviceGetMemoryInfo_v2")
        cold = self.in_background(server.generate, model="other:7b")
        self.is_answered_meanwhile(cold, lambda: server.own("GET", "status"),
                                   lambda: server.ask("GET", "/api/version"))
        self.assertEqual(cold()[0], 503)
        self.assertEqual(server.generate(model="tiny")[0], 200)  # what is loaded needs no look at the cards

    def test_uuid(self):
        """a_card_that_its_driver_knows_by_another_uuid_is_refused"""
        self.world.write_text(self.world.read_text().replace(UUIDS[1], "GPU-99999999-2222-3333-4444-555555555555"))
        server = Server(self, env=self.drivers(), **self.managed())
        self.assertEqual(server.process.wait(PATIENCE), 2)
        self.assertIn("cuda-0000-2d-00-0 does not start as configured: wrong_uuid", server.text())
        self.no_worker_is_left(server)

    def test_index(self):
        """so_is_a_worker_whose_card_is_at_another_place"""
        self.set_stub(self.homes[1], devices=[f"id=0 library=CUDA pci_id={PLACES[0]}"])
        server = Server(self, env=self.drivers(), **self.managed())
        self.assertEqual(server.process.wait(PATIENCE), 2)
        self.assertIn("does not start as configured: wrong_device", server.text())
        self.no_worker_is_left(server)


class Learning(Cards):
    @unittest.skipIf(NO_DOCUMENT, NO_DOCUMENT)
    def test_document(self):
        """what_is_told_of_workers_is_as_the_description_has_it"""
        self.set_stub(self.homes[0], fail={"tiny:latest": "memory"})
        server, document = self.start(), Document()
        self.assertEqual(self.place(server.generate(model="tiny")), 1)
        server.wait_idle()
        for route in ("status", "learning", "resources"):
            answer = server.ask("GET", f"/kuno/v1/{route}", headers=OWNER, port=server.control)
            document.check("GET", f"/kuno/v1/{route}", *answer)
        self.assertEqual(len(self.failures(server, 0)), 1)

    def test_spill(self):
        """a_load_that_is_not_wholly_on_its_card_is_not_used"""
        self.set_stub(self.homes[0], vram=0.5)
        self.only(0)
        server = self.start()
        status, _, body = server.generate(model="tiny")
        self.assertEqual(status, 503)
        self.assertIn(b"could not be loaded", body)
        failure, = self.failures(server, 0)
        self.assertEqual((failure["class"], failure["retried"], failure["co_resident"]), ("estimate", False, []))
        self.assertEqual((failure["before_cleanup_bytes"], failure["after_cleanup_bytes"]), (2 * GIB, GIB))
        self.assertEqual(self.notes(start="use"), [])
        learning = server.own("GET", "learning")[1]["workers"][0]
        self.assertEqual((learning["unloaded_baseline_bytes"], learning["baseline_provisional"]), (GIB, True))

    def test_retry(self):
        """want_of_memory_beside_others_is_tried_once_more_alone"""
        self.only(0)
        server = self.start()
        for model in ("tiny", "other:7b", "tiny"):  # both are known now, and loaded
            self.place(server.generate(model=model))
        server.ask("POST", "/api/generate", {"model": "other:7b", "keep_alive": 0})
        self.set_stub(self.homes[0], fail_beside={"other:7b": "memory"})
        self.assertEqual(self.place(server.generate(model="other:7b")), 0)
        failure, = self.failures(server, 0)
        self.assertEqual((failure["class"], failure["retried"], failure["retry_succeeded"]), ("capacity", True, True))
        self.assertEqual([m["digest"] for m in failure["co_resident"]], [self.upstream.models["tiny:latest"]])
        self.assertEqual((failure["before_cleanup_bytes"], failure["after_cleanup_bytes"]), (2 * GIB, GIB))
        self.assertEqual(len(self.pids(0)), 2)

    def test_once(self):
        """and_not_a_third_time"""
        self.only(0)
        server = self.start()
        for model in ("tiny", "other:7b", "tiny"):
            self.place(server.generate(model=model))
        server.ask("POST", "/api/generate", {"model": "other:7b", "keep_alive": 0})
        self.set_stub(self.homes[0], fail={"other:7b": "memory"})
        self.assertEqual(server.generate(model="other:7b")[0], 503)
        first, second = self.failures(server, 0)
        self.assertEqual((first["class"], first["retried"], first["retry_succeeded"]), ("capacity", True, False))
        self.assertEqual((second["class"], second["retried"], second["co_resident"]), ("capacity", False, []))

    def test_pressure(self):
        """memory_that_stays_taken_is_nobodys_fault_and_the_other_card_is_tried"""
        self.set_stub(self.homes[0], fail={"tiny:latest": "memory"}, leak=GIB)
        server = self.start()
        self.assertEqual(self.place(server.generate(model="tiny")), 1)
        failure, = self.failures(server, 0)
        self.assertEqual((failure["class"], failure["retried"]), ("external_pressure", False))
        self.assertEqual(failure["after_cleanup_bytes"], 2 * GIB)

    def test_unknown(self):
        """what_cannot_be_read_proves_nothing"""
        self.set_stub(self.homes[0], fail={"tiny:latest": "memory"}, dark="fail DeviceGetMemoryInfo_v2 999")
        self.only(0)
        server = self.start()
        self.assertEqual(server.generate(model="tiny")[0], 503)
        self.assertEqual([(f["class"], f["after_cleanup_bytes"]) for f in self.failures(server, 0)],
                         [("inconclusive", None)])


if __name__ == "__main__":
    tap.main()
