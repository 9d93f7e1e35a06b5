"""The studio's page for those who use no mouse, who listen, or who hold it in one hand."""

import time

import tap
from studio.rig import png
from studio.serve import Serve
from web.browser import PATIENCE_MS, BrowserCase, drop, shot, why_not

if not why_not():
    from playwright.sync_api import expect

# How many things move, when the next frame is there.
MOVING = """async () => {
    await new Promise(requestAnimationFrame);
    return document.getAnimations().filter((one) => one.playState === "running").length;
}"""
SCREENS = ("create", "queue", "gallery", "models", "settings", "diagnostics")
FOCUSED = """() => {
    const one = document.activeElement;
    return (one.getAttribute("aria-label") ?? one.labels?.[0]?.textContent ?? one.textContent).trim();
}"""


def tab_to(page, label, most=60):
    """Presses Tab until what has the focus is called like that."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate(FOCUSED).startswith(label):
            return
    raise AssertionError(f"{label} is not reached")


class Access(BrowserCase):
    def test_a_picture_is_drawn_and_opened_with_the_keyboard_alone(self):
        with Serve() as rig, self.visit(rig) as page:
            page.keyboard.press("Tab")
            self.assertEqual(page.evaluate(FOCUSED), "Skip to content")
            page.keyboard.press("Enter")
            tab_to(page, "Prompt")
            page.keyboard.type("A red apple.")
            tab_to(page, "Fast")
            page.keyboard.press("ArrowRight")
            expect(page.locator("[name=preset][value=balanced]")).to_be_checked()
            tab_to(page, "Draw")
            expect(page.locator("button[type=submit]")).to_be_enabled()
            page.keyboard.press("Enter")
            expect(page.locator("#announcer")).to_have_text("Done")
            expect(page.locator(".stage figure img")).to_be_visible()
            tab_to(page, "Open in the gallery")
            page.keyboard.press("Enter")
            expect(page.locator(".viewer")).to_be_visible()
            page.keyboard.press("f")
            expect(page.locator(".viewer [aria-pressed=true]")).to_be_visible()
            page.keyboard.press("Escape")
            expect(page.locator(".cell a")).to_be_focused()
            page.keyboard.press("Delete")
            expect(page.locator(".empty h2")).to_have_text("No pictures yet")

    def test_an_area_is_painted_with_the_keyboard_alone(self):
        with Serve() as rig, self.visit(rig) as page:
            drop(page, ".composer", ("grey.png", png(64, 64)))
            page.locator("[aria-label='Paint an area']").press("Enter")
            expect(page.locator("canvas.paper")).to_be_focused()
            page.keyboard.press("Enter")
            page.keyboard.down("Space")
            page.keyboard.press("ArrowRight")
            page.keyboard.press("ArrowDown")
            page.keyboard.up("Space")
            page.keyboard.press("Control+z")
            expect(page.locator("[aria-label=Redo]")).to_be_enabled()
            tab_to(page, "Use")
            page.keyboard.press("Enter")
            expect(page.locator(".picture p")).to_have_text("area painted")

    def test_who_wants_no_motion_sees_none(self):
        with Serve() as rig, self.visit(rig, reduced_motion="reduce") as page:
            rig.post("/engine/stop")  # so that it waits
            page.fill("textarea >> nth=0", "A red apple.")
            page.keyboard.press("Control+Enter")
            expect(page.locator(".frame.waiting")).to_be_visible()
            # wait_for_function would have to look from within the page, which lets nothing in that is a text.
            end = time.monotonic() + PATIENCE_MS / 1000
            while page.evaluate(MOVING):
                self.assertLess(time.monotonic(), end, "something moves on")

    def test_every_screen_fits_a_phone(self):
        phone = {"width": 360, "height": 740, "has_touch": True, "is_mobile": True}
        with Serve() as rig:
            rig.ended(rig.job("A red apple."))
            with self.visit(rig, **phone) as page:
                page.tap("textarea >> nth=0")
                page.fill("textarea >> nth=0", "A boat.")
                page.tap("button[type=submit]")
                expect(page.locator(".stage figure img")).to_be_visible()
                for screen in SCREENS:
                    page.tap(f".nav a[data-name={screen}]")
                    expect(page.locator("main h1")).to_have_text(screen.capitalize())
                    self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), 360, screen)
                    shot(page, f"phone-{screen}")
                page.tap(".nav a[data-name=gallery]")
                page.locator(".cell a").first.tap()
                expect(page.locator(".viewer-picture img")).to_be_visible()
                shot(page, "phone-viewer")
                page.tap(".viewer >> text=Work from it")
                page.tap("[aria-label='Paint an area']")
                page.tap("canvas.paper")
                expect(page.locator("[aria-label=Undo]")).to_be_enabled()
                shot(page, "phone-mask")

    def test_nothing_serious_is_found_by_axe(self):
        with Serve() as rig:
            for words in ("A red apple.", "A boat."):
                rig.ended(rig.job(words))
            for scheme in ("light", "dark"):
                with self.visit(rig, scheme=scheme, enter=False) as page:
                    expect(page.locator("#token")).to_be_visible()
                    self.check_access(page, f"token, {scheme}")
                with self.visit(rig, scheme=scheme) as page:
                    for screen in SCREENS:
                        page.click(f".nav a[data-name={screen}]")
                        expect(page.locator("main h1")).to_have_text(screen.capitalize())
                        expect(page.locator(".loading")).to_have_count(0)
                        if screen == "create":
                            page.click("text=More options")
                        self.check_access(page, f"{screen}, {scheme}")
                        shot(page, f"{screen}-{scheme}")
                    page.click(".nav a[data-name=gallery]")
                    page.locator(".cell a").first.click()
                    self.check_access(page, f"viewer, {scheme}")
                    page.click(".viewer >> text=Enlarge")
                    self.check_access(page, f"enlarge, {scheme}")
                    page.keyboard.press("Escape")
                    page.click(".viewer >> text=Work from it")
                    page.click("[aria-label='Paint an area']")
                    self.check_access(page, f"editor, {scheme}")


tap.main()
