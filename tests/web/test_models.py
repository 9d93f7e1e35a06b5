"""Models on the studio's page: folders, profiles, downloads."""

import contextlib
import hashlib
import os
import pathlib
import re
import tempfile
import time

import files
import tap
from server import Server
from studio.rig import PATIENCE
from studio.serve import Catalogued, Serve
from web.browser import BrowserCase, shot, why_not

if not why_not():
    from playwright.sync_api import expect

KIB = 1 << 10


def slowly(_, reply):
    reply.bytes_per_second = 64 * KIB


def gone(_, reply):
    reply.status, reply.body = 404, b""


class Offline(Catalogued):
    of_studio = {"offline": True}


class Models(BrowserCase):
    @contextlib.contextmanager
    def fetching(self, behave):
        """The page's models in front of a service that fetches from a server of the tests, after "Fetch" at one."""
        with (Server("small", behave) as server, Catalogued(mirror=server.url) as rig,
              self.visit(rig, may_complain=True) as page):
            page.click(".nav a[data-name=models]")
            entry = page.locator(".files li", has_text="The small one")
            entry.get_by_role("button", name="Fetch").click()
            yield server, rig, page, entry

    def agree(self, page):
        page.get_by_role("dialog").get_by_role("checkbox").check()
        page.locator("dialog .primary").click()

    def place(self, rig):
        return pathlib.Path(rig.folder) / "studio" / "models" / "vae"

    def assert_complete(self, rig):
        content = (self.place(rig) / "small.safetensors").read_bytes()
        self.assertEqual(hashlib.sha256(content).hexdigest(), files.sha256("small"))

    def test_a_licence_is_shown_before_anything_is_fetched(self):
        with self.fetching(slowly) as (server, rig, page, entry):
            dialog = page.get_by_role("dialog")
            expect(dialog.get_by_role("link", name="Free Licence")).to_have_attribute("href",
                                                                                      "https://example.org/licence")
            expect(dialog).to_contain_text(files.sha256("small"))
            expect(dialog.locator(".primary")).to_be_disabled()
            self.check_access(page, "licence")
            shot(page, "licence")
            dialog.get_by_role("button", name="Cancel").click()
            expect(dialog).to_have_count(0)
            self.assertEqual((server.requests, rig.get("/downloads")["items"]), ([], []))
            entry.get_by_role("button", name="Fetch").click()
            expect(dialog.locator(".primary")).to_be_disabled()

    def test_a_download_is_watched_paused_resumed_and_comes_whole(self):
        with self.fetching(slowly) as (server, rig, page, entry):
            self.agree(page)
            row = page.locator(".job")
            expect(row.locator(".job-title")).to_have_text("The small one")
            expect(row).to_contain_text(re.compile(r"Fetching · [1-9][\d.]* [kM]B / 3\.0 MB · [\d.]+ kB/s · .+"))
            expect(entry.get_by_role("button", name="Fetch")).to_be_disabled()
            row.get_by_label("Pause").click()
            expect(row).to_contain_text("Paused")
            shot(page, "download")
            page.reload()
            expect(row).to_contain_text(re.compile(r"Paused · [1-9][\d.]* [kM]B / 3\.0 MB"))
            self.assertEqual(rig.get("/downloads")["items"][0]["state"], "paused")
            self.assertFalse((self.place(rig) / "small.safetensors").exists())
            asked = len(server.requests)
            server.behave = None
            row.get_by_label("Resume").click()
            expect(row).to_contain_text("Done")
            expect(entry).to_contain_text("Installed")
            self.assert_complete(rig)
            self.assertGreater(min(request.first for request in server.requests[asked:]), 0)
            row.get_by_label("Remove from the list").click()
            expect(row).to_have_count(0)
            self.assert_complete(rig)

    def test_a_download_that_is_cancelled_leaves_nothing_and_can_be_begun_again(self):
        with self.fetching(slowly) as (server, rig, page, entry):
            self.agree(page)
            row = page.locator(".job")
            expect(row).to_contain_text(re.compile(r"Fetching · [1-9]"))
            row.get_by_label("Cancel").click()
            expect(row).to_contain_text("Cancelled")
            server.behave = None
            entry.get_by_role("button", name="Fetch").click()  # the licence has been accepted
            expect(row.first).to_contain_text("Done")
            expect(row).to_have_count(2)
            self.assert_complete(rig)
            self.assertEqual([one.name for one in self.place(rig).iterdir()], ["small.safetensors"])

    def test_a_download_that_fails_says_why_and_where_the_file_is(self):
        with self.fetching(gone) as (server, rig, page, _):
            self.agree(page)
            row = page.locator(".job")
            expect(row).to_contain_text("Failed")
            expect(row.locator(".error")).not_to_be_empty()
            expect(row.get_by_role("link", name="Get it by hand")).to_have_attribute(
                "href", f"https://models.example.org/tests/models/tree/{files.REVISION}")
            shot(page, "download-failed")
            server.behave = None
            row.get_by_label("Resume").click()
            expect(row).to_contain_text("Done")
            expect(row.locator(".error")).to_have_count(0)
            self.assert_complete(rig)

    def test_a_model_that_was_fetched_whole_is_used_by_a_button(self):
        *parts, last = files.PARTS
        with (Server(last, more=parts) as server, Catalogued(mirror=server.url) as rig,
              self.visit(rig) as page):
            for part in parts:
                rig.post("/downloads", {"artifact": part, "accept_license": True})
            end = time.monotonic() + PATIENCE
            while any(one["state"] != "completed" for one in rig.get("/downloads")["items"]):
                self.assertLess(time.monotonic(), end, rig.get("/downloads")["items"])
                time.sleep(0.02)
            page.click(".nav a[data-name=models]")
            expect(page.locator(".job")).to_have_count(len(parts))
            page.locator(".files li", has_text=f"The {last} one").get_by_role("button", name="Fetch").click()
            self.agree(page)
            expect(page.locator(".files li", has_text=f"The {last} one")).to_contain_text("for The built-in model")
            row = page.locator(".job", has_text=f"The {last} one")
            expect(row).to_contain_text("for The built-in model, once more")
            expect(row).to_contain_text("All files are there: The built-in model, once more")
            card = page.locator(".model", has_text="demo-again")
            expect(card).to_contain_text("Ready")
            self.check_access(page, "usable")
            row.scroll_into_view_if_needed()
            shot(page, "usable")
            row.get_by_role("button", name="Use this model").click()
            expect(row).to_contain_text("In use")
            expect(card).to_contain_text("In use")
            self.assertTrue(rig.get("/models/demo-again")["active"])
            pathlib.Path(rig.get("/models/demo-again")["files"][0]["path"]).unlink()
            page.reload()
            expect(card).to_contain_text("Diffusion model is missing")
            expect(row).to_contain_text("Done")
            expect(row).not_to_contain_text("All files are there")

    def test_a_whole_model_is_fetched_at_once(self):
        first, *parts = files.PARTS
        with (Server(first, more=parts) as server, Catalogued(mirror=server.url) as rig, self.visit(rig) as page):
            page.click(".nav a[data-name=models]")
            card = page.locator(".model", has_text="demo")
            expect(card).to_contain_text("Built-in demo")
            entry = page.locator(".files li", has_text=f"{len(files.PARTS)} files")
            expect(entry).to_contain_text("The built-in model, once more")
            entry.get_by_role("button", name="Fetch all").click()
            dialog = page.get_by_role("dialog")
            for part in files.PARTS:
                expect(dialog).to_contain_text(files.sha256(part))
            self.check_access(page, "licences of a collection")
            shot(page, "fetch-all")
            self.agree(page)
            expect(entry).to_contain_text("Installed")
            expect(page.locator(".model", has_text="demo-again")).to_contain_text("Ready")
            shot(page, "fetched-all")

    def test_a_service_without_a_network_offers_nothing_to_fetch(self):
        with Offline() as rig, self.visit(rig) as page:
            page.click(".nav a[data-name=models]")
            expect(page.locator(".note")).to_contain_text("This service is set to use no network.")
            expect(page.locator(".files li", has_text="The small one")).to_be_visible()
            self.assertEqual(page.get_by_role("button", name="Fetch").count(), 0)
            shot(page, "offline")

    def test_files_of_a_folder_become_a_profile(self):
        with Serve() as rig, tempfile.TemporaryDirectory() as folder, self.visit(rig) as page:
            header = b"{}      "
            for name in ("painter.safetensors", "reader.safetensors"):
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(len(header).to_bytes(8, "little") + header)
            page.click(".nav a[data-name=models]")
            page.fill("[placeholder='/home/you/models']", folder)
            page.keyboard.press("Enter")
            expect(page.locator(".choose li")).to_have_count(2)
            page.get_by_label("Use of painter.safetensors").select_option("diffusion")
            page.click("text=Make a profile")
            page.click("dialog >> text=Save")
            expect(page.locator("dialog .error")).to_have_text("Small letters, digits, dots, dashes and underscores")
            page.fill("[placeholder='my-model']", "mine")
            page.click("dialog >> text=Save")
            expect(page.locator(".model", has_text="mine")).to_be_visible()
            self.assertEqual(rig.get("/models/mine")["files"][0]["role"], "diffusion")
            page.locator(".model", has_text="mine").get_by_label("Remove the profile").click()
            page.click("dialog >> .danger")
            expect(page.locator(".model", has_text="mine")).to_have_count(0)


tap.main()
