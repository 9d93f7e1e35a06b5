"""Pictures that say how they were made, let fall on the studio's page."""

import pathlib
import re
import struct
import zlib

import tap
from studio.rig import png
from studio.serve import Serve
from web.browser import BrowserCase, drop, shot, why_not

if not why_not():
    from playwright.sync_api import expect

WORKFLOWS = pathlib.Path(__file__).parents[1] / "golden" / "workflow"
SEED = "9007199254740993"  # more than a number of JavaScript holds


def drop_workflow(page, name):
    """Its texts, in a picture that is large enough to work from."""
    header = 33
    small, large = (WORKFLOWS / name).read_bytes(), png(64, 48)
    texts = small[header:small.index(b"IDAT") - 4]
    drop(page, ".composer", (name, large[:header] + texts + large[header:]))


def form_of(page):
    """What the form asks for: prompt, negative prompt, seed, size."""
    if not page.locator(".advanced").evaluate("(one) => one.open"):
        page.click("text=More options")
    fields = ("textarea >> nth=0", "textarea >> nth=1", "input[placeholder=random]")
    return (*(page.locator(one).input_value() for one in fields),
            [page.locator(f".advanced input[type=number] >> nth={i}").input_value() for i in range(2)])


class Carried(BrowserCase):
    def take(self, page, source, words):
        """Takes what is offered, which names its source and begins with these words."""
        offer = page.locator(".offer")
        expect(offer).to_contain_text(f"settings of {source}: {words}")
        page.click(".offer >> text=Use them")
        expect(offer).to_have_count(0)
        expect(page.locator("textarea >> nth=0")).to_be_focused()

    def test_settings_of_other_programs_fill_the_form(self):
        boat, bad = "a red boat on a quiet lake", "blurry, low quality"
        with Serve() as rig, self.visit(rig) as page:
            drop_workflow(page, "a1111.png")
            expect(page.locator(".offer")).to_contain_text("Steps, guidance and schedule will be those of the model.")
            shot(page, "carried")
            self.take(page, "A1111", boat + ", second line")
            self.assertEqual(form_of(page), (boat + ", second line\nwith a break", bad, "1062323160169910",
                                             ["832", "1248"]))
            drop_workflow(page, "21-turbo.png")
            expect(page.locator(".offer")).to_contain_text("No model profile is for this picture")
            self.take(page, "ComfyUI", boat)
            self.assertEqual(form_of(page), (boat, "", "1062323160169914", ["1376", "768"]))
            drop_workflow(page, "21-edit.png")
            expect(page.locator(".offer")).to_contain_text("made from 2 pictures that the file does not hold")
            page.click(".offer >> text=Leave them")
            expect(page.locator(".offer")).to_have_count(0)
            self.assertEqual(form_of(page)[0], boat)

    def test_own_settings_are_known_from_the_gallery_and_from_the_file_alone(self):
        wish = {"seed": SEED, "size": {"mode": "custom", "width": 96, "height": 64}}
        with Serve() as rig, Serve() as other:
            known = rig.ended(rig.job("A red apple.", **wish))
            foreign = other.ended(other.job("A small boat.", **wish))
            with self.visit(rig) as page:
                for owner, job, words in ((rig, known, "A red apple."), (other, foreign, "A small boat.")):
                    picture = owner.get(f"/jobs/{job['id']}/results/0").body
                    drop(page, ".composer", ("own.png", picture))
                    self.take(page, "Kuno", words)
                    self.assertEqual(form_of(page), (words, "", SEED, ["96", "64"]))
                page.click("button[type=submit]")
                expect(page.locator(".stage figure img")).to_be_visible()
                again = rig.get("/jobs?limit=1")["items"][0]
                self.assertEqual((again["request"]["prompt"], again["seeds"]), ("A small boat.", [SEED]))

    def test_what_cannot_be_taken_over_is_said(self):
        with Serve() as rig, self.visit(rig) as page:
            page.fill("textarea >> nth=0", "A boat.")
            drop_workflow(page, "refuse-lora.png")
            offer = page.locator(".offer")
            expect(offer).to_contain_text("settings of ComfyUI: They cannot be used here.")
            expect(offer).to_contain_text("unsupported node LoraLoaderModelOnly (90)")
            self.assertEqual(offer.locator("text=Use them").count(), 0)
            page.click("text=More options")
            page.select_option("select >> nth=1", "custom")
            expect(offer).to_have_count(1)  # although the form was made anew
            offer.locator("text=Close").click()
            expect(offer).to_have_count(0)
            self.assertEqual(page.locator("textarea >> nth=0").input_value(), "A boat.")

    def test_a_picture_without_settings_offers_none_and_a_file_that_is_none_is_named(self):
        with Serve() as rig, self.visit(rig) as page:  # which asks for nothing that would be refused
            drop(page, ".composer", ("grey.png", png(64, 64)))
            expect(page.locator(".picture")).to_have_count(1)
            page.click("[aria-label=Remove]")
            drop(page, ".composer", ("notes.png", b"no picture"), ("nothing.jpg", b""))
            expect(page.locator(".toast")).to_have_text(["notes.png is no PNG, JPEG or WebP picture.",
                                                         "nothing.jpg is empty."])
            self.assertEqual(page.locator(".offer").count() + page.locator(".picture").count(), 0)

    def test_a_picture_that_the_service_refuses_is_named_in_a_sentence(self):
        with Serve() as rig, self.visit(rig, may_complain=True) as page:
            bomb, torn = bytearray(png(64, 64)), png(64, 64)[:-40]
            bomb[16:24] = struct.pack(">II", 60000, 60000)
            bomb[29:33] = struct.pack(">I", zlib.crc32(bomb[12:29]))
            drop(page, ".composer", ("bomb.png", bytes(bomb)), ("torn.png", torn))
            expect(page.locator(".toast")).to_have_text([
                re.compile(r"^bomb\.png is 60000x60000 pixels large; at most .*[^.]\.$"),
                re.compile(r"^torn\.png .*[^.]\.$")])

    def test_of_many_files_it_is_said_which_one_is_taken(self):
        with Serve() as rig, self.visit(rig) as page:
            many = [(f"{i}.png", png(64, 64, i)) for i in range(20)]
            drop(page, ".composer", ("notes.txt", b"no picture"), *many)
            expect(page.locator(".picture img")).to_have_attribute("alt", "0.png")
            expect(page.locator(".toast")).to_have_text([
                "notes.txt is no PNG, JPEG or WebP picture.",
                "Taken: 0.png. 19 files were left out. This model works from one picture at a time."])
            shot(page, "many-files")

    def test_a_new_start_leaves_no_offer_and_gives_it_back(self):
        with Serve() as rig, self.visit(rig) as page:
            drop_workflow(page, "a1111.png")
            offer = page.locator(".offer")
            expect(offer).to_be_visible()
            page.click("text=Start anew")
            expect(offer).to_have_count(0)
            page.click(".toast >> text=Undo")
            self.take(page, "A1111", "a red boat on a quiet lake")
            # What is still under way belongs to what was before.
            page.click("text=Start anew")
            page.route("**/recipes/inspect", lambda route: (page.click("text=Start anew"), route.continue_()))
            with page.expect_response("**/recipes/inspect"):
                drop_workflow(page, "a1111.png")
            expect(page.locator(".picture")).to_have_count(0)
            page.evaluate("fetch('/api/v1/health')")  # answered later, so that the other answer has been seen
            self.assertEqual(offer.count(), 0)

    def test_a_file_that_falls_beside_the_form_does_not_become_the_page(self):
        with Serve() as rig, self.visit(rig) as page:
            page.click(".nav a[data-name=gallery]")
            refused = page.evaluate("""() => ["dragover", "drop"].map((name) => {
                const dataTransfer = new DataTransfer();
                dataTransfer.items.add(new File(["x"], "x.png", { type: "image/png" }));
                const event = new DragEvent(name, { dataTransfer, bubbles: true, cancelable: true });
                return document.querySelector("main").dispatchEvent(event);
            })""")
            self.assertEqual(refused, [False, False])

    def test_another_model_than_the_one_in_use_is_said(self):
        with Serve() as rig:
            job = rig.ended(rig.job("A red apple."))
            rig.edit_by_default()
            with self.visit(rig) as page:
                drop(page, ".composer", ("apple.png", rig.get(f"/jobs/{job['id']}/results/0").body))
                expect(page.locator(".offer")).to_contain_text("It was drawn with demo; editor is in use now.")

    def test_settings_of_a_picture_of_another_model_keep_its_size_and_say_what_is_lost(self):
        with Serve() as rig:
            plan = rig.ended(rig.job("A red apple."))["plan"]
            rig.edit_by_default()
            with self.visit(rig) as page:
                page.click(".nav a[data-name=gallery]")
                page.locator(".cell a").first.click()
                page.click(".viewer >> text=Use these settings")
                expect(page.locator(".toast")).to_have_text(
                    "It was drawn with demo; editor is in use now. "
                    "Steps, guidance and schedule will be those of the model.")
                shot(page, "carried-model")
                self.assertEqual(form_of(page)[3], [str(plan["working_width"]), str(plan["working_height"])])


tap.main()
