"""Models on the studio's page: folders, profiles, downloads."""

import json
import os
import tempfile

import tap
from studio.serve import Serve
from web.browser import BrowserCase, shot, why_not

if not why_not():
    from playwright.sync_api import expect

MIB = 1 << 20
ENTRY = {"id": "small-vae", "title": "A small VAE", "role": "vae", "bytes": 300 * MIB, "sha256": "ab" * 32,
         "license": "Apache-2.0", "installed": False, "license_accepted": False}


class Downloads:
    """Answers in place of the service: the page is tried, not the downloads."""

    def __init__(self, page):
        self.orders, self.acts, self.one = [], [], None
        page.route("**/api/v1/catalog", lambda route: self.say(route, {"items": [ENTRY]}))
        page.route("**/api/v1/downloads**", self.answer)
        page.route("**/api/v1/downloads/**", self.answer)

    def say(self, route, answer, status=200):
        route.fulfill(status=status, body=json.dumps(answer), content_type="application/json")

    def answer(self, route):
        request = route.request
        last = request.url.split("?")[0].rsplit("/", 1)[1]
        if request.method == "GET":
            self.say(route, {"items": [self.one] if self.one else [], "next_cursor": None})
        elif request.method == "DELETE":
            self.one = None
            route.fulfill(status=204)
        elif last == "downloads":
            self.orders.append(request.post_data_json)
            self.one = {"id": "dl_" + "0" * 26, "artifact": "small-vae", "state": "running", "bytes_done": 100 * MIB,
                        "bytes_total": 300 * MIB, "bytes_per_second": 50 * MIB, "path": "/models/small-vae",
                        "created_at": "2026-01-01T00:00:00Z"}
            self.say(route, self.one, 202)
        else:
            self.acts.append(last)
            self.one = {**self.one, "state": {"pause": "paused", "resume": "running", "cancel": "cancelled"}[last]}
            self.say(route, self.one)


class Models(BrowserCase):
    def test_a_licence_is_shown_before_anything_is_fetched(self):
        with Serve() as rig, self.visit(rig) as page:
            downloads = Downloads(page)
            page.click(".nav a[data-name=models]")
            page.click("text=Fetch")
            dialog = page.locator("dialog")
            expect(dialog).to_contain_text("Apache-2.0")
            expect(dialog.locator(".primary")).to_be_disabled()
            shot(page, "licence")
            dialog.get_by_role("checkbox").check()
            dialog.locator(".primary").click()
            row = page.locator(".job")
            expect(row).to_contain_text("Fetching · 105 MB / 315 MB")
            self.assertEqual(downloads.orders, [{"artifact": "small-vae", "accept_license": True}])
            row.get_by_label("Pause").click()
            expect(row).to_contain_text("Paused")
            shot(page, "download")
            row.get_by_label("Resume").click()
            expect(row).to_contain_text("Fetching")
            row.get_by_label("Cancel").click()
            expect(row).to_contain_text("Cancelled")
            row.get_by_label("Remove from the list").click()
            expect(row).to_have_count(0)
            self.assertEqual(downloads.acts, ["pause", "resume", "cancel"])

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
            page.fill("[placeholder='my-model']", "mine")
            page.click("dialog >> text=Save")
            expect(page.locator(".model", has_text="mine")).to_be_visible()
            self.assertEqual(rig.get("/models/mine")["files"][0]["role"], "diffusion")
            page.locator(".model", has_text="mine").get_by_label("Remove the profile").click()
            page.click("dialog >> .danger")
            expect(page.locator(".model", has_text="mine")).to_have_count(0)


tap.main()
