"""What people do with pictures on the studio's page."""

import json
import signal

import tap
from studio.rig import Rig, png
from studio.serve import Serve
from web.browser import BrowserCase, drop, shot, why_not

if not why_not():
    from playwright.sync_api import expect

WORDS = ("A red apple.", "A small boat.", "A blue house.")


def newest(rig):
    return rig.get("/jobs?limit=1")["items"][0]


def open_screen(page, name):
    page.click(f".nav a[data-name={name}]")
    expect(page.locator("main h1")).to_have_text(name.capitalize())


def draw_all(rig):
    for words in WORDS:
        if rig.ended(rig.job(words, seed="42"))["state"] != "completed":
            raise AssertionError(words)


class Pictures(BrowserCase):
    def test_two_pictures_are_dropped_ordered_and_worked_from(self):
        # The built-in model sees no pictures; the rig's draws nothing, but says what it was asked.
        with Rig() as rig:
            rig.edit_by_default()
            with self.visit(rig) as page:
                first, second = png(64, 48, 10), png(48, 64, 250)
                drop(page, ".composer", ("first.png", first), ("second.png", second))
                cards = page.locator(".picture")
                expect(cards).to_have_count(2)
                expect(cards.nth(0).locator("img")).to_have_attribute("alt", "first.png")
                cards.nth(1).get_by_role("button", name="Move before").click()
                expect(cards.nth(0).locator("img")).to_have_attribute("alt", "second.png")
                page.fill("textarea >> nth=0", "Both of them.")
                expect(page.locator(".plan")).to_contain_text("Edit")
                shot(page, "edit")
                page.click("button[type=submit]")
                expect(page.locator(".stage figure img")).to_be_visible()
                job = newest(rig)
                self.assertEqual(job["kind"], "edit")
                wanted = [{"input_id": rig.upload(one), "role": "reference"} for one in (second, first)]
                self.assertEqual(job["request"]["inputs"], wanted)

    def test_an_area_is_painted_and_drawn_anew(self):
        with Serve() as rig:
            draw_all(rig)
            with self.visit(rig) as page:
                open_screen(page, "gallery")
                page.locator(".cell a").first.click()
                page.click("text=Work from it")
                expect(page.locator(".picture")).to_have_count(1)
                # Alone it says nothing to a model that changes parts only.
                page.fill("textarea >> nth=0", "A red apple.")
                expect(page.locator("button[type=submit]")).to_be_disabled()
                page.click("[aria-label='Paint an area']")
                box = page.locator("canvas.paper").bounding_box()
                x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
                page.mouse.move(x - 40, y)
                page.mouse.down()
                page.mouse.move(x + 40, y + 20, steps=5)
                page.mouse.up()
                shot(page, "mask")
                page.click("[aria-label=Undo]")
                expect(page.locator("[aria-label=Undo]")).to_be_disabled()
                page.click("[aria-label=Redo]")
                page.get_by_label("Soft edge").fill("12")
                expect(page.locator(".editor output").last).to_have_text("12 px")
                shot(page, "mask-soft")
                page.keyboard.press("Escape")  # which is not to lose what was painted
                page.click("dialog:not(.editor) >> text=Cancel")
                expect(page.locator("[aria-label=Undo]")).to_be_enabled()
                page.click(".editor >> text=Use")
                expect(page.locator(".plan")).to_contain_text("Inpaint")
                page.click("button[type=submit]")
                expect(page.locator(".stage figure img")).to_be_visible()
                shot(page, "inpaint")
                job = newest(rig)
                self.assertEqual((job["kind"], job["state"]), ("inpaint", "completed"))
                self.assertEqual([one["role"] for one in job["request"]["inputs"]], ["source", "mask"])
                self.assertEqual(job["request"]["feather"], 12)
                facts = [rig.get(f"/inputs/{one['input_id']}") for one in job["request"]["inputs"]]
                self.assertEqual(*((one["width"], one["height"]) for one in facts))

    def test_what_cannot_be_drawn_of_an_area_is_said_on_the_canvas(self):
        why = "the mask's white falls between the model's cells of 16 pixels, so that nothing would be drawn"
        refusal = {"code": "request_invalid", "title": "No", "detail": why, "status": 422,
                   "errors": [{"pointer": "/inputs/1/input_id", "detail": why}]}

        def refuse(route):
            if '"mask"' not in route.request.post_data:
                route.continue_()
                return
            route.fulfill(status=422, content_type="application/problem+json", body=json.dumps(refusal))

        with Serve() as rig, self.visit(rig, may_complain=True) as page:
            page.route("**/api/v1/plan", refuse)
            drop(page, ".composer", ("small.png", png(64, 64)))
            page.fill("textarea >> nth=0", "A boat.")
            page.click("[aria-label='Paint an area']")
            self.assertEqual(page.get_by_label("Brush size").input_value(), "16")  # a cell of the model
            page.locator("canvas.paper").press("Enter")
            page.click(".editor >> text=Use")
            expect(page.locator(".editor .bad")).to_have_text(
                f"This cannot be used: {why}. Try a larger brush or a wider edge.")
            shot(page, "mask-refused")
            page.get_by_label("Wider edge").fill("8")
            expect(page.locator(".editor .bad")).to_have_count(0)
            page.unroute("**/api/v1/plan")
            page.click(".editor >> text=Use")
            expect(page.locator(".editor")).to_have_count(0)
            expect(page.locator(".plan")).to_contain_text("Inpaint")

    def test_a_picture_is_extended_as_the_planner_allows(self):
        with Serve() as rig, self.visit(rig) as page:
            drop(page, ".composer", ("small.png", png(64, 64)))
            page.fill("textarea >> nth=0", "A boat.")
            page.click("[aria-label=Extend]")
            page.fill("label:has-text('Right') + input", "32")
            page.keyboard.press("Tab")
            expect(page.locator(".editor header [role=status]")).to_have_text("becomes 96 × 64")
            page.fill("label:has-text('Right') + input", "8192")
            page.keyboard.press("Tab")
            expect(page.locator(".editor .bad")).to_have_text("No side may have more than 8192 pixels.")
            expect(page.locator(".editor .primary")).to_be_disabled()
            page.fill("label:has-text('Right') + input", "32")
            page.keyboard.press("Tab")
            page.click(".editor >> text=Use")
            expect(page.locator(".plan")).to_contain_text("Outpaint")

    def test_pictures_are_found_compared_deleted_and_had_back(self):
        with Serve() as rig:
            draw_all(rig)
            with self.visit(rig) as page:
                open_screen(page, "gallery")
                cells = page.locator(".cell:not([hidden])")
                expect(cells).to_have_count(3)
                page.fill("[type=search]", "boat")
                expect(cells).to_have_count(1)
                cells.first.locator("a").focus()
                page.keyboard.press("Delete")
                expect(cells).to_have_count(0)
                page.click("text=Undo")
                expect(cells).to_have_count(1)
                rig.ended(rig.job("Another boat."))
                expect(cells).to_have_count(2)
                rig.ask("DELETE", f"/gallery/{rig.get('/gallery')['items'][0]['id']}")
                expect(cells).to_have_count(1)
                cells.first.hover()
                cells.first.locator(".star").click()
                page.fill("[type=search]", "")
                expect(cells).to_have_count(3)
                page.click("text=Favourites")
                expect(cells).to_have_count(1)
                page.click("text=Favourites")
                expect(cells).to_have_count(3)
                page.click("text=Compare")
                cells.nth(0).locator("a").click()
                cells.nth(1).locator("a").click()
                page.click("text=Compare them")
                slider = page.get_by_role("slider")
                slider.focus()
                page.keyboard.press("Home")
                self.assertEqual(page.locator(".compare").evaluate("(one) => one.style.getPropertyValue('--at')"), "0%")
                shot(page, "compare")
                page.keyboard.press("Escape")
                page.click(".choosing [aria-label=Cancel]")
                cells.nth(0).locator("a").click()
                expect(page.locator(".viewer")).to_contain_text(WORDS[2])
                shot(page, "viewer")
                page.click(".viewer [aria-label=Delete]")
                page.keyboard.press("Escape")
                expect(cells).to_have_count(2)
                page.click("text=Undo")
                expect(cells).to_have_count(3)
                self.assertEqual(len(rig.get("/gallery")["items"]), 3)

    def test_a_picture_deleted_in_the_viewer_is_had_back_there(self):
        with Serve() as rig:
            draw_all(rig)
            with self.visit(rig) as page:
                open_screen(page, "gallery")
                viewer, undo = page.locator(".viewer"), page.locator(".toast button", has_text="Undo")
                page.locator(".cell a").first.click()
                for number, had_back in enumerate((undo.click, lambda: self.reach(page, undo))):
                    viewer.get_by_label("Delete").click()
                    expect(viewer.locator(".prompt")).to_have_text(WORDS[1])
                    expect(viewer.get_by_label("Delete")).to_be_focused()
                    self.check_access(page, "viewer with a message")
                    shot(page, f"viewer-deleted-{number}")
                    had_back()
                    expect(page.locator(".toast")).to_have_count(0)
                    expect(viewer.locator(".prompt")).to_have_text(WORDS[2])
                    expect(viewer.get_by_label("Delete")).to_be_focused()
                page.keyboard.press("Escape")
                page.click("text=Compare")
                expect(page.locator(".cell:not([hidden])")).to_have_count(3)
                self.assertEqual(len(rig.get("/gallery")["items"]), 3)

    def reach(self, page, wanted):
        """From where the focus is to a button that comes before it, by keys alone."""
        for _ in range(12):
            page.keyboard.press("Shift+Tab")
            if wanted.evaluate("(one) => one === document.activeElement"):
                page.keyboard.press("Enter")
                return
        self.fail("it is not reached")

    def test_what_fails_over_the_screen_is_said_there(self):
        with Serve() as rig:
            draw_all(rig)
            with self.visit(rig, may_complain=True) as page:
                open_screen(page, "gallery")
                page.locator(".cell a").first.click()
                expect(page.locator(".viewer")).to_be_visible()
                rig.end(signal.SIGKILL)
                page.get_by_label("Title", exact=True).fill("Mine")
                page.keyboard.press("Tab")
                self.told_to(page)
                expect(page.locator(".viewer .wrong")).to_have_text("This is not saved yet.")
                rig.begin()
                page.get_by_label("Title", exact=True).fill("My apple")
                page.keyboard.press("Tab")
                expect(page.locator(".viewer .wrong")).to_have_count(0)
                page.click("text=Work from it")
                page.click("[aria-label='Paint an area']")
                page.locator("canvas.paper").press("Enter")
                rig.end(signal.SIGKILL)
                page.click(".editor >> text=Use")
                self.told_to(page)
                rig.begin()
                page.click(".editor >> text=Use")
                expect(page.locator(".editor")).to_have_count(0)

    def told_to(self, page):
        """It is said, where it can be seen and pressed."""
        words = page.get_by_text("The service cannot be reached.", exact=True)  # the lost connection is told in more
        told = page.locator(".toast", has=words)
        expect(told).to_have_count(1)
        shot(page, "told")
        told.get_by_label("Close").click()
        expect(told).to_have_count(0)

    def test_settings_of_a_picture_are_used_again_and_it_is_enlarged(self):
        with Serve() as rig:
            wish = {"seed": "9007199254740993", "size": {"mode": "custom", "width": 96, "height": 64}}
            rig.ended(rig.job("A red apple.", **wish))
            with self.visit(rig) as page:
                open_screen(page, "gallery")
                page.locator(".cell a").first.click()
                page.click(".viewer >> text=Enlarge")
                page.click("dialog >> nth=-1 >> .primary")
                page.click(".viewer >> text=Use these settings")
                expect(page.locator("main h1")).to_have_text("Create")
                expect(page.locator("textarea >> nth=0")).to_have_value("A red apple.")
                page.click("text=More options")
                expect(page.locator("input[placeholder=random]")).to_have_value("9007199254740993")
                expect(page.locator(".plan")).to_contain_text("96 × 64")
                job = newest(rig)
                self.assertEqual(job["kind"], "upscale")
                result = rig.ended(job["id"])["results"][0]
                self.assertEqual((result["width"], result["height"]), (192, 128))


tap.main()
