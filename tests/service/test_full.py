"""The state directory is on a disk that is full: answers and pictures come as ever, and what cannot be kept is told."""

import tap
from disk import DiskCase
from harness import Case, wait_until
from test_images import Pictures

DISK_BYTES = 1 << 20


class Full(DiskCase, Pictures, Case):
    def setUp(self):
        super().setUp()
        self.upstream.residents = []
        (self.folder / "state").mkdir()
        self.disk = self.mount(self.folder / "state", DISK_BYTES)

    def usage(self, server):
        return server.own("GET", "usage")[1]

    def wait_kept(self, server, calls):
        def is_kept():
            persistence = self.usage(server)["persistence"]
            return (persistence["healthy"], persistence["last_error"]) == (True, None)
        wait_until(is_kept, "a history that is kept")
        self.assertEqual([model["calls"] for model in self.usage(server)["models"]], [calls])

    def draw_same(self, server):
        """By both doors, to the byte."""
        for port in (server.control, server.listen):
            status, _, picture = self.draw(server, port=port)
            self.assertEqual((status, picture), (200, self.picture))

    def start_and_draw(self):
        server = self.serve(image={})
        status, _, self.picture = self.draw(server)
        self.assertEqual((status, self.picture[:4]), (200, b"\x89PNG"))
        self.assertEqual(server.generate()[0], 200)
        self.wait_kept(server, 1)
        return server

    def test_room(self):
        """without_room_pictures_and_answers_reach_their_clients_and_the_history_says_that_it_is_not_kept"""
        server = self.start_and_draw()
        wait_until(lambda: self.usage(server)["persistence"]["last_write_at"], "the first writing")
        self.disk.fill()
        persistence = self.usage(server)["persistence"]  # also when there was nothing to write
        self.assertEqual((persistence["healthy"], persistence["last_error"]), (False, "disk_full"))
        self.draw_same(server)
        self.assertEqual(server.generate()[0], 200)
        wait_until(lambda: self.usage(server)["persistence"]["last_error"] == "write_failed", "the failure")
        self.assertFalse(self.usage(server)["persistence"]["healthy"])
        self.draw_same(server)
        server.wait_said("the history of use cannot be")
        self.assertEqual(server.text().count("No space left on device"), 1)
        server.wait_idle()
        self.assertFalse(server.marker())
        self.disk.make_room()
        self.assertEqual(server.generate()[0], 200)
        self.wait_kept(server, 3)
        self.draw_same(server)

    def test_files(self):
        """where_not_even_a_marker_can_be_made_pictures_still_come_and_what_needs_one_is_refused"""
        server = self.start_and_draw()
        self.disk.limit_files(len(list(server.state.rglob("*"))) + 1)
        self.draw_same(server)
        self.assertEqual(server.generate()[0], 503)
        self.draw_same(server)
        self.assertEqual(len(self.upstream.worked()), 1)
        self.disk.limit_files(0)
        self.assertEqual(server.generate()[0], 200)
        self.wait_kept(server, 2)
        self.assertEqual(server.admission()["state"], "open")


if __name__ == "__main__":
    tap.main()
