"""The studio's page in a browser, in front of `kuno serve` with the built-in model."""

import os
import re
import signal
import subprocess
import unittest

import tap
from studio.rig import TOKEN, Rig, png_file
from studio.serve import PROGRAM, Serve
from web.browser import BrowserCase, drop, shot, why_not

if not why_not():
    from playwright.sync_api import expect

WEIGHT_MAX = 250_000
SCREENS = ("create", "queue", "gallery", "models", "settings", "diagnostics")
LONG = {"batch": 8, "preset": "quality"}
MANY = 210  # jobs, of which the list gives 200 at a time
# A browser without a window shows all its tabs at once.
HIDING = """(() => {
    let hidden = false;
    Object.defineProperty(document, "hidden", { get: () => hidden });
    window.hide = (to) => {
        hidden = to;
        document.dispatchEvent(new Event("visibilitychange"));
    };
})()"""
RUNS = re.compile(r"^(?!Waiting)\S")  # whatever a job is at that is held


def picture(width, height, red=200):
    return png_file(width, height, 2, b"".join(b"\0" + bytes((red, 120, 80)) * width for _ in range(height)))


def job_of(rig):
    return rig.get("/jobs?limit=1")["items"][0]


def go(page, screen):
    page.click(f".nav a[data-name={screen}]")
    expect(page.locator("main h1")).to_have_text(screen.capitalize())


class Files(unittest.TestCase):
    def test_the_page_is_small_and_strict_and_is_not_sent_twice(self):
        folder = os.path.join(os.path.dirname(__file__), "..", "..", "web")
        names = [name for name in os.listdir(folder) if name not in ("meson.build", "package.json")]
        self.assertLessEqual(sum(os.path.getsize(os.path.join(folder, name)) for name in names), WEIGHT_MAX)
        types = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml", "html": "text/html"}
        with Serve() as rig:
            for name in names:
                answer = rig.send("GET", f"/web/{name}", token=None)
                with open(os.path.join(folder, name), "rb") as file:
                    self.assertEqual(answer.body, file.read(), name)
                self.assertIn(types[name.rsplit(".", 1)[1]], answer.headers["Content-Type"])
                self.assertEqual(answer.headers["X-Content-Type-Options"], "nosniff")
            answer = rig.send("GET", "/", token=None)
            policy = answer.headers["Content-Security-Policy"]
            self.assertIn("default-src 'none'; script-src 'self'; style-src 'self'", policy)
            self.assertNotIn("unsafe", policy)
            again = rig.send("GET", "/", token=None, If_None_Match=answer.headers["ETag"])
            self.assertEqual((again.status, again.body), (304, b""))
            self.assertEqual(rig.send("HEAD", "/", token=None).body, b"")
            self.assertEqual(rig.send("GET", "/web/none.js", token=None).status, 401)
            self.assertEqual(rig.send("POST", "/", {}, token=None).status, 401)
            self.assertEqual(rig.send("GET", "/", token=None, Host="example.org").status, 421)

    def test_nothing_of_it_reads_text_as_html_or_names_another_host(self):
        folder = os.path.join(os.path.dirname(__file__), "..", "..", "web")
        forbidden = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|style=\"")
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                text = file.read()
            self.assertIsNone(forbidden.search(text), name)
            named = set(re.findall(r"https?://[^\s\"'`)]+", text))
            self.assertEqual(named - {"http://www.w3.org/2000/svg"}, set(), name)


class Page(BrowserCase):
    def test_from_the_first_visit_to_the_first_picture(self):
        with Serve() as rig, self.visit(rig, enters=False, guide=True) as page:
            shot(page, "token")
            page.fill("#token", TOKEN)
            page.keyboard.press("Enter")
            page.click("dialog >> text=Next")
            shot(page, "guide")
            page.fill("dialog textarea", " ")
            page.click("dialog >> role=button[name='Draw']")
            expect(page.locator("dialog .error")).to_have_text("Write a prompt first.")
            page.fill("dialog textarea", "A red apple.")
            page.click("dialog >> role=button[name='Draw']")
            expect(page.locator("dialog .stage figure img")).to_be_visible()
            page.click("dialog >> text=Go on")
            expect(page.locator(".strip-row a")).to_have_count(1)
            page.reload()
            expect(page.locator(".strip-row a")).to_have_count(1)
            expect(page.locator("dialog")).to_have_count(0)
            shot(page, "create")

    def test_something_is_seen_before_any_script_has_come(self):
        with Serve() as rig, self.visit(rig, enters=False, java_script_enabled=False) as page:
            expect(page.locator(".brand span")).to_be_in_viewport()

    def test_a_wrong_token_is_refused_in_words(self):
        with Serve() as rig, self.visit(rig, enters=False, may_complain=True) as page:
            page.fill("#token", "x" * 32)
            page.keyboard.press("Enter")
            expect(page.locator("#token-error")).to_contain_text("This is not the token.")
            self.assertEqual(page.locator("main h1").count(), 0)

    def link(self, rig):
        told = subprocess.run([PROGRAM, "open", "--config", os.path.join(rig.folder, "config.json"), "--print"],
                              env={**os.environ, "KUNO_CONTROL_TOKEN": TOKEN}, capture_output=True, text=True)
        self.assertIn("/#link=", told.stdout, told.stderr)
        return told.stdout.strip()

    def test_the_link_of_kuno_open_begins_one_session_which_a_restart_does_not_end(self):
        with Serve() as rig:
            link = self.link(rig)
            for first in (True, False):
                with self.visit(rig, enters=False, may_complain=True, start=link) as page:
                    expect(page.locator("main h1" if first else "#token")).to_have_count(1)
                    self.assertNotIn("link", page.url)
                    if not first:
                        expect(page.locator(".toast")).to_contain_text("This link is good no more")
                        continue
                    page.reload()
                    expect(page.locator("main h1")).to_have_count(1)
                    rig.end(signal.SIGKILL)
                    expect(page.locator("#lost")).to_be_visible()
                    rig.begin()
                    expect(page.locator("#lost")).to_be_hidden()
                    page.fill("textarea >> nth=0", "A boat.")
                    page.click("button[type=submit]")
                    expect(page.locator(".stage figure img")).to_be_visible()
                    self.assertEqual(page.locator("#token").count(), 0)

    def test_a_link_that_never_was_one_is_refused_in_words(self):
        with Serve() as rig:
            for broken in ("x", "%20", ""):
                with self.visit(rig, enters=False, may_complain=True, start=f"/#link={broken}") as page:
                    expect(page.locator(".toast")).to_contain_text("This link is good no more, or never was")
                    expect(page.locator("#token")).to_be_visible()
                    self.assertNotIn("link", page.url)

    def test_a_link_is_taken_by_a_page_that_asks_for_the_token(self):
        with Serve() as rig, self.visit(rig, enters=False) as page:
            expect(page.locator("#token")).to_be_visible()
            page.goto(self.link(rig))
            expect(page.locator("main h1")).to_have_count(1)
            expect(page.locator("#token")).to_have_count(0)
            self.assertNotIn("link", page.url)
            page.go_back()
            self.assertNotIn("link", page.url)

    def test_a_picture_is_drawn_as_it_was_asked_for(self):
        with Serve() as rig, self.visit(rig) as page:
            page.fill("textarea >> nth=0", "A red apple.")
            page.check("[name=shape][value='16:9']")
            page.click("text=More options")
            # More than a number of JavaScript holds.
            page.fill("input[placeholder=random]", "9007199254740993")
            expect(page.locator(".plan")).to_contain_text("176 × 96")
            page.focus("textarea >> nth=0")
            page.keyboard.press("Control+Enter")
            expect(page.locator(".stage figure img")).to_be_visible()
            expect(page.locator(".stage figcaption")).to_contain_text("seed 9007199254740993")
            job = job_of(rig)
            self.assertEqual(job["request"], {"prompt": "A red apple.", "seed": "9007199254740993",
                                              "size": {"mode": "auto", "aspect_ratio": "16:9"}})
            self.assertEqual(job["seeds"], ["9007199254740993"])
            page.fill("input[placeholder=random]", "9223372036854775808")
            expect(page.locator("button[type=submit]")).to_be_disabled()

    def test_a_running_job_is_cancelled(self):
        with Serve() as rig, self.visit(rig) as page:
            job = rig.job("a boat", **LONG)
            go(page, "queue")
            row = page.locator(f".job[data-id={job}]")
            with rig.held(job):
                expect(row.locator("strong")).to_have_text(RUNS)
                shot(page, "queue-running")
                row.locator("text=Cancel").click()
                expect(row.locator("strong")).to_have_text("Stopping after this step")
            expect(row.locator("strong")).to_have_text("Cancelled")
            self.assertEqual(rig.ended(job)["state"], "cancelled")

    def test_what_this_tab_draws_is_shown_again_after_a_reload(self):
        with Serve() as rig, self.visit(rig) as page:
            page.fill("textarea >> nth=0", "A boat.")
            page.check("[name=preset][value=quality]")
            page.check("[name=batch][value='8']")
            page.click("button[type=submit]")
            expect(page.locator(".progress")).to_be_visible()
            with rig.held(job_of(rig)["id"]):
                page.reload()
                expect(page.locator(".progress strong")).to_have_text(RUNS)
                page.click(".progress >> text=Cancel")
                expect(page.locator(".progress strong")).to_have_text("Stopping after this step")
            expect(page.locator(".stage h2")).to_have_text("Cancelled")

    def test_a_kept_draft_says_that_its_picture_is_gone(self):
        with Serve() as rig, self.visit(rig, may_complain=True) as page:
            drop(page, ".composer", ("small.png", picture(64, 64)))
            expect(page.locator(".picture img")).to_be_visible()
            rig.ask("DELETE", f"/inputs/{rig.upload(picture(64, 64))}")
            page.reload()
            expect(page.locator(".picture")).to_contain_text("Gone: remove it.")
            expect(page.locator(".picture img")).to_have_count(0)
            shot(page, "picture-gone")

    def test_the_plan_is_asked_again_when_the_way_to_the_service_is_free(self):
        with Serve() as rig, self.visit(rig, may_complain=True) as page:
            expect(page.locator(".plan")).to_be_visible()
            page.route("**/api/v1/plan", lambda route: route.abort())
            page.fill("textarea >> nth=0", "A boat.")
            page.check("[name=batch][value='2']")
            expect(page.locator(".verdict")).to_have_text("The service cannot be reached.")
            expect(page.locator("#lost")).to_be_hidden()
            page.unroute("**/api/v1/plan")
            expect(page.locator(".plan")).to_be_visible()

    def test_more_jobs_than_a_page_of_the_list_are_shown_and_cancelled(self):
        with Serve() as rig:
            first = rig.job("a boat", **LONG)
            with rig.held(first):
                for number in range(MANY):
                    last = rig.job(f"boat {number}")
                with self.visit(rig) as page:
                    go(page, "queue")
                    expect(page.locator(".job")).to_have_count(MANY + 1)
                    expect(page.locator(".nav [data-name=queue] .badge")).to_have_text(str(MANY + 1))
                    expect(page.locator(".job").first).to_have_attribute("data-id", first)
                    expect(page.locator(f".job[data-id={last}] strong")).to_have_text(f"{MANY - 1} jobs before it")
                    shot(page, "queue-many")
                    page.click("text=Cancel all")
                    expect(page.locator(f".job[data-id={first}] strong")).to_have_text("Stopping after this step")
                    self.assertEqual(rig.get("/status")["queue"]["queued"], 0)
            self.assertEqual(rig.ended(first)["state"], "cancelled")
            self.assertEqual({one["started_at"] for one in rig.get("/jobs?limit=200")["items"] if one["id"] != first},
                             {None})

    def test_who_waits_moves_up(self):
        with Serve() as rig, self.visit(rig) as page:
            first = rig.job("a boat", **LONG)
            with rig.held(first):
                left, last = rig.job("a boat"), rig.job("a house")
                go(page, "queue")
                row = page.locator(f".job[data-id={last}] strong")
                expect(row).to_have_text("One job before it")
                rig.post(f"/jobs/{left}/cancel")
                expect(row).to_have_text("Next in the queue")

    def test_a_tab_that_nobody_sees_takes_no_connection_from_the_others(self):
        with Serve() as rig, self.visit(rig, start="/") as first:
            context, tabs = first.context, [first]
            first.evaluate(HIDING)
            context.add_init_script(HIDING)
            for _ in range(6):
                tabs[-1].evaluate("hide(true)")
                tabs.append(context.new_page())
                tabs[-1].goto("/")
                tabs[-1].wait_for_selector("main h1")
            tabs[-1].fill("textarea >> nth=0", "A boat.")
            tabs[-1].click("button[type=submit]")
            expect(tabs[-1].locator(".stage figure img")).to_be_visible()
            expect(first.locator(".strip-row a")).to_have_count(0)
            tabs[-1].evaluate("hide(true)")
            first.evaluate("hide(false)")
            expect(first.locator(".strip-row a")).to_have_count(1)
            rig.ended(rig.job("A house."))
            expect(first.locator(".strip-row a")).to_have_count(2)

    def test_a_job_says_what_it_waits_for(self):
        with Rig() as rig, self.visit(rig) as page:
            go(page, "queue")
            for number, words in enumerate((r"Waiting for its turn", r"owner has paused", r"start both again")):
                job = rig.job(f"a boat, waits={number}")
                row = page.locator(f".job[data-id={job}]")
                expect(row.locator("strong")).to_have_text(re.compile(words))
                shot(page, f"queue-waits-{number}")
                row.locator("text=Cancel").click()
                self.assertEqual(rig.ended(job)["state"], "cancelled")

    def test_a_job_goes_on_when_the_service_is_begun_again(self):
        with Serve() as rig, self.visit(rig, may_complain=True) as page:
            page.fill("textarea >> nth=0", "A boat.")
            page.check("[name=preset][value=quality]")
            page.check("[name=batch][value='8']")
            page.click("button[type=submit]")
            page.wait_for_selector(".progress strong")
            with rig.held(job_of(rig)["id"]):
                expect(page.locator(".progress strong")).to_have_text(RUNS)
                rig.end(signal.SIGKILL)
            expect(page.locator("#lost")).to_be_visible()
            # Its icon does not come from the service that is gone.
            self.assertGreater(page.locator("#lost use").evaluate("(one) => one.getBBox().width"), 0)
            shot(page, "lost")
            rig.begin()
            expect(page.locator("#lost")).to_be_hidden()
            expect(page.locator(".stage figure img")).to_have_count(8)
            self.assertEqual(job_of(rig)["state"], "completed")


tap.main()
