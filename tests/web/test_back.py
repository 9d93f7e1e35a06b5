"""Back on the studio's page, as a phone's button or a gesture has it: it closes what lies over a screen first."""

import tap
from studio.rig import png
from studio.serve import Serve
from web.browser import BrowserCase, drop, shot, why_not

if not why_not():
    from playwright.sync_api import expect


class Back(BrowserCase):
    def seen(self, page, screen, dialogs=0):
        expect(page.locator("dialog[open]")).to_have_count(dialogs)
        expect(page.locator("main h1")).to_have_text(screen)
        self.assertTrue(page.url.split("#/")[1].startswith(screen.lower()), page.url)

    def test_it_closes_a_comparison_then_leaves_the_gallery(self):
        with Serve() as rig:
            for words in ("A red apple.", "A boat."):
                rig.ended(rig.job(words))
            with self.visit(rig, start="/#/queue") as page:
                page.click(".nav a[data-name=gallery]")
                page.get_by_role("button", name="Compare").click()
                for i in range(2):
                    page.locator(".cell a").nth(i).click()
                page.click("text=Compare them")
                self.seen(page, "Gallery", 1)
                page.go_back()
                self.seen(page, "Gallery")
                expect(page.get_by_role("button", name="Compare them")).to_be_focused()
                page.click(".choosing [aria-label=Cancel]")
                page.locator(".cell a").first.click()
                page.click(".viewer >> text=Enlarge")
                self.seen(page, "Gallery", 2)
                page.go_back()
                expect(page.locator(".viewer")).to_be_visible()
                expect(page.locator("dialog[open]")).to_have_count(1)
                page.go_back()
                self.seen(page, "Gallery")
                page.go_back()
                self.seen(page, "Queue")

    def test_it_does_not_lose_what_was_painted(self):
        with Serve() as rig, self.visit(rig, start="/#/queue") as page:
            page.click(".nav a[data-name=create]")
            drop(page, ".composer", ("grey.png", png(64, 64)))
            page.click("[aria-label='Paint an area']")
            page.go_back()  # nothing is painted yet
            self.seen(page, "Create")
            expect(page.locator("[aria-label='Paint an area']")).to_be_focused()
            page.click("[aria-label='Paint an area']")
            page.click("canvas.paper")
            page.go_back()
            self.seen(page, "Create", 2)
            shot(page, "back-painted")
            page.go_back()  # which is not to discard it
            self.seen(page, "Create", 1)
            expect(page.locator("[aria-label=Undo]")).to_be_enabled()
            page.go_back()
            page.click("dialog .danger")
            self.seen(page, "Create")
            expect(page.locator(".picture")).to_have_count(1)
            page.click("[aria-label='Paint an area']")
            page.click("canvas.paper")
            page.click(".editor >> text=Use")
            expect(page.locator(".picture p")).to_have_text("area painted")
            expect(page.locator("[aria-label='Paint an area']")).to_be_focused()
            page.go_back()
            self.seen(page, "Queue")

    def test_it_does_not_leave_the_page_where_nothing_was_before_it(self):
        with Serve() as rig, self.visit(rig, start="/#/settings") as page:
            page.click("text=Show the guide")
            self.seen(page, "Settings", 1)
            page.go_back()
            self.seen(page, "Settings")

    def test_a_link_within_a_dialog_is_followed(self):
        with Serve() as rig, self.visit(rig, start="/#/settings") as page:
            page.click("text=Show the guide")
            page.click("dialog >> text=Next")
            page.click("dialog >> role=button[name='Draw']")
            page.click("dialog .stage figure a")
            expect(page.locator(".viewer")).to_be_visible()
            self.seen(page, "Gallery", 1)
            page.go_back()
            self.seen(page, "Settings")


tap.main()
