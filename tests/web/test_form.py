"""What is written into the studio's form, and what is said of it."""

import tap
from studio.rig import Rig
from studio.serve import Serve
from web.browser import BrowserCase, shot, why_not

if not why_not():
    from playwright.sync_api import expect

BAD_SEEDS = ("-1", "1.5", "abc", "00007", "9223372036854775808", "18446744073709551615")
BAD_SIDES = ("99999", "8193", "0", "-5", "100.5", "")


class Form(BrowserCase):
    def begin(self, page):
        page.fill("textarea >> nth=0", "A boat.")
        page.click("text=More options")
        expect(page.locator(".plan")).to_be_visible()

    def assert_wrong(self, page, field, words):
        """Beside the field, for those who listen, in the verdict; and nothing is drawn."""
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(field).to_have_accessible_description(words)
        expect(page.locator(".wrong")).to_be_visible()
        expect(page.locator(".verdict .error")).to_be_visible()
        expect(page.locator(".plan")).to_have_count(0)
        expect(page.locator("button[type=submit]")).to_be_disabled()

    def assert_good(self, page, field, plan):
        expect(page.locator(".plan")).to_contain_text(plan)
        expect(page.locator("button[type=submit]")).to_be_enabled()
        expect(page.locator("[aria-invalid], .wrong")).to_have_count(0)

    def test_a_seed_that_is_none_is_said_beside_it(self):
        with Serve() as rig, self.visit(rig) as page:
            self.begin(page)
            seed = page.get_by_label("Seed")
            for words in BAD_SEEDS:
                seed.fill(words)
                self.assertEqual(seed.input_value(), words)
                self.assert_wrong(page, seed, "A whole number below 9223372036854775808, without zeros in front of it. "
                                  "The same seed and settings draw the same picture.")
                expect(page.locator(".verdict")).to_have_text("Seed: A whole number below 9223372036854775808, "
                                                              "without zeros in front of it.")
            shot(page, "seed")
            page.reload()  # it is kept, and seen
            self.assert_wrong(page, seed, "A whole number below 9223372036854775808, without zeros in front of it. "
                              "The same seed and settings draw the same picture.")
            seed.fill("9223372036854775807")
            self.assert_good(page, seed, "128 × 128")
            expect(seed).to_have_accessible_description("The same seed and settings draw the same picture.")

    def test_a_size_is_planned_as_it_is_written_or_not_at_all(self):
        with Serve() as rig, self.visit(rig) as page:
            self.begin(page)
            page.get_by_label("Size", exact=True).select_option("custom")
            width, height = page.get_by_label("Width"), page.get_by_label("Height")
            height.fill("64")
            for words in BAD_SIDES:
                width.fill(words)
                self.assert_wrong(page, width, "A whole number from 16 to 8192.")
                page.focus("textarea >> nth=0")
                page.keyboard.press("Control+Enter")
            shot(page, "size")
            self.assertEqual(rig.get("/jobs")["items"], [])
            height.fill("7")
            expect(page.locator(".wrong")).to_have_count(2)
            expect(page.locator(".verdict")).to_contain_text("Width: A whole number from 16 to 8192. Height: ")
            height.fill("512")
            width.fill("8192")  # the largest that is allowed
            self.assert_good(page, width, "8192 × 512")
            page.get_by_label("File format").select_option("jpeg")
            quality = page.get_by_label("Quality", exact=True).last
            for words in ("0", "101", "9.5", ""):
                quality.fill(words)
                self.assert_wrong(page, quality, "A whole number from 1 to 100.")
            quality.fill("90")
            self.assert_good(page, quality, "8192 × 512")

    def test_words_that_are_too_many_are_not_sent_to_be_refused(self):
        with Serve() as rig, self.visit(rig) as page:
            self.begin(page)
            for prompt in (page.get_by_label("Prompt", exact=True), page.get_by_label("Negative prompt")):
                prompt.fill("é" * 32769)
                expect(page.locator(".wrong")).to_have_text("This is longer than 32768 characters.")
                expect(prompt).to_have_attribute("aria-invalid", "true")
                expect(page.locator("button[type=submit]")).to_be_disabled()
                prompt.fill("A boat.")
                self.assert_good(page, prompt, "128 × 128")

    def test_a_size_beyond_the_limit_is_not_offered(self):
        with Rig() as rig:
            rig.edit_by_default()
            with self.visit(rig) as page:
                self.begin(page)
                page.check("[name=preset][value=quality]")
                page.check("[name=shape][value='16:9']")
                four = page.get_by_label("Enlarge the result").locator("option[value='4']")
                expect(four).to_have_attribute("title", "No side may have more than 8192 pixels.")
                expect(four).to_be_disabled()

    def test_what_is_lacking_is_said_above_the_button(self):
        with Serve() as rig, self.visit(rig) as page:
            expect(page.locator(".verdict")).to_contain_text("Write a prompt first.")
            expect(page.locator("button[type=submit]")).to_be_disabled()
            page.fill("textarea >> nth=0", "A boat.")
            expect(page.locator(".verdict")).not_to_contain_text("Write a prompt first.")
            expect(page.locator("button[type=submit]")).to_be_enabled()

    def test_what_the_plan_says_of_the_prompt_is_said_beside_it(self):
        with Serve() as rig, self.visit(rig, may_complain=True) as page:
            self.begin(page)
            prompt = page.get_by_label("Prompt", exact=True)
            prompt.fill("A boat. <lora:mine:1>")
            told = "prompt: there are no LoRAs here; none can be used in prompts"
            self.assert_wrong(page, prompt, told)
            expect(page.locator(".verdict")).to_have_text(told)
            prompt.fill("A boat.")
            self.assert_good(page, prompt, "128 × 128")
            # Also where it is a plan that cannot be carried out.
            blocked = rig.post("/plan", {"prompt": "A boat."}).json
            told = "The prompt has 5000 tokens, at most 1024 are allowed"
            blocked["blocking"] = [{"code": "prompt_too_long", "message": told, "severity": "error"}]
            page.route("**/api/v1/plan", lambda route: route.fulfill(json=blocked))
            prompt.fill("A boat on a lake.")
            self.assert_wrong(page, prompt, told)

    def test_a_setting_that_cannot_be_is_said_and_not_saved(self):
        with Serve() as rig, self.visit(rig) as page:
            page.click(".nav a[data-name=settings]")
            days = page.get_by_label("Days to keep unused inputs")
            share = page.get_by_label("Share of plain resampling")
            before = rig.get("/settings")["keep_inputs_days"]
            for field, words, told in ((days, "-3", "A whole number from 0 to 36500."),
                                       (share, "7", "A number from 0 to 1, in steps of 0.05.")):
                field.fill(words)
                field.press("Tab")
                expect(field).to_have_attribute("aria-invalid", "true")
                expect(page.locator(".wrong").last).to_be_visible()
                self.assertIn(told, page.locator(".wrong").all_text_contents())
            self.assertEqual(rig.get("/settings")["keep_inputs_days"], before)
            days.fill("9")
            days.press("Tab")
            expect(page.locator(".toast")).to_have_text("Saved.")
            expect(days).not_to_have_attribute("aria-invalid", "true")
            self.assertEqual(rig.get("/settings")["keep_inputs_days"], 9)


tap.main()
