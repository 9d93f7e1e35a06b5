"""The studio's page for those who use no mouse, who listen, or who hold it in one hand."""

import contextlib
import os
import tempfile
import time

import tap
from studio.rig import png
from studio.serve import Serve
from web.browser import PATIENCE_MS, BrowserCase, drop, enter, shot, why_not

if not why_not():
    from playwright.sync_api import expect

# How many things move, when the next frame is there.
MOVING = """async () => {
    await new Promise(requestAnimationFrame);
    return document.getAnimations().filter((one) => one.playState === "running").length;
}"""
SCREENS = ("create", "queue", "gallery", "models", "settings", "diagnostics")
PHONE = {"width": 360, "height": 740, "has_touch": True, "is_mobile": True}
UNBROKEN = "boat" + "_of_the_line" * 40
# What is wider than it can be seen, of the page and of what lies over it.
TOO_WIDE = """() => [...document.querySelectorAll("html, dialog[open], dialog[open] > :not(.unseen)")]
    .filter((one) => one.scrollWidth > Math.min(one.clientWidth || 360, 360))
    .map((one) => `${one.tagName}.${one.className} ${one.scrollWidth}`)"""
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


@contextlib.contextmanager
def lived_in():
    """A service in use for a while: pictures, long words, a model with a long name that cannot draw, and why. And a
    folder with a model file."""
    with Serve() as rig, tempfile.TemporaryDirectory() as folder:
        for words in (UNBROKEN, "A red apple."):
            rig.ended(rig.job(words))
        rig.edit_by_default()
        profile = rig.get("/models/editor")
        rig.ask("PUT", "/models/" + "m" * 64, {
            "model": profile["model"], "title": "Model" * 30,
            "files": [{"role": one["role"], "path": one["path"]} for one in profile["files"]],
        })
        failed = rig.ended(rig.job(UNBROKEN))
        assert failed["state"] == "failed", failed
        rig.post("/models/demo/activate")
        header = b"{}      "
        with open(os.path.join(folder, "model" * 30 + ".safetensors"), "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
        yield rig, folder


def opened(page, button):
    """Presses what opens a dialog; the dialog."""
    before = page.locator("dialog[open]").count()
    button.click()
    expect(page.locator("dialog[open]")).to_have_count(before + 1)


def closed(page):
    before = page.locator("dialog[open]").count()
    page.keyboard.press("Escape")
    expect(page.locator("dialog[open]")).to_have_count(before - 1)


def tour(page, folder):
    """Opens each screen and each dialog, and says which."""
    dialogs = {
        "queue": {"clear": "text=Clear earlier jobs"},
        "models": {"licence": ".files button:has-text('Fetch') >> nth=0", "profile": "text=Make a profile",
                   "forget": "[aria-label='Remove the profile'] >> nth=0"},
        "settings": {"guide": "text=Show the guide"},
    }
    for screen in SCREENS:
        page.click(f".nav a[data-name={screen}]")
        expect(page.locator("main h1")).to_have_text(screen.capitalize())
        expect(page.locator(".loading")).to_have_count(0)
        if screen == "create" and not page.locator(".advanced").evaluate("(one) => one.open"):
            page.click("text=More options")
        if screen == "models":
            page.fill("[placeholder='/home/you/models']", folder)
            page.keyboard.press("Enter")
            page.locator(".choose select").select_option("diffusion")
        yield screen
        for name, button in dialogs.get(screen, {}).items():
            opened(page, page.locator(button))
            yield name
            closed(page)
    page.click(".nav a[data-name=gallery]")
    page.get_by_role("button", name="Compare").click()
    for i in range(2):
        page.locator(".cell a").nth(i).click()
    yield "choosing"
    opened(page, page.locator("text=Compare them"))
    yield "compare"
    closed(page)
    page.click(".choosing [aria-label=Cancel]")
    opened(page, page.locator(".cell a").first)
    yield "viewer"
    opened(page, page.locator(".viewer >> text=Enlarge"))
    yield "enlarge"
    closed(page)
    page.click(".viewer >> text=Work from it")
    expect(page.locator("dialog[open]")).to_have_count(0)
    opened(page, page.locator("[aria-label=Extend]"))
    yield "extend"
    closed(page)
    opened(page, page.locator("[aria-label='Paint an area']"))
    page.keyboard.press("Enter")
    yield "mask"
    page.keyboard.press("Escape")
    expect(page.locator("dialog[open]")).to_have_count(2)
    yield "discard"
    page.click("dialog .danger")
    expect(page.locator("dialog[open]")).to_have_count(0)
    page.click("[aria-label=Remove]")


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

    def test_every_screen_and_dialog_fits_a_phone(self):
        with lived_in() as (rig, folder), self.visit(rig, **PHONE) as page:
            page.tap("textarea >> nth=0")
            page.fill("textarea >> nth=0", UNBROKEN)
            page.tap("button[type=submit]")
            expect(page.locator(".stage figure img")).to_be_visible()
            for where in tour(page, folder):
                self.assertEqual(page.evaluate(TOO_WIDE), [], where)
                shot(page, f"phone-{where}")
            drop(page, ".composer", ("grey.png", png(64, 64)))
            page.tap("[aria-label='Paint an area']")
            page.tap("canvas.paper")
            expect(page.locator("[aria-label=Undo]")).to_be_enabled()

    def test_nothing_serious_is_found_by_axe(self):
        with lived_in() as (rig, folder):
            for form, size in (("window", {}), ("phone", PHONE)):
                for scheme in ("light", "dark"):
                    with self.visit(rig, scheme=scheme, enters=False, **size) as page:
                        expect(page.locator("#token")).to_be_visible()
                        self.check_access(page, f"token, {form}, {scheme}")
                        enter(page)
                        for where in tour(page, folder):
                            self.check_access(page, f"{where}, {form}, {scheme}")
                            shot(page, f"{form}-{scheme}-{where}")


tap.main()
