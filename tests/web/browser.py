"""A browser in front of the studio's page, of which nothing may be seen in its console, on its network, by its policy.
KUNO_CLIENTS names the folder of scripts/install-clients."""

import base64
import contextlib
import os
import pathlib
import re
import shutil
import sys
import unittest

from studio.rig import TOKEN

PACKAGES = pathlib.Path(os.environ["KUNO_CLIENTS"])
SHOTS = pathlib.Path(os.environ["KUNO_SHOTS"])
PATIENCE_MS = 60000
CHROMIUM = shutil.which("chromium")
AXE = PACKAGES / "axe" / "node_modules" / "axe-core" / "axe.min.js"

sys.path += [str(path) for path in (PACKAGES / "browser").glob("lib/python3*/site-packages")]
try:
    from playwright.sync_api import expect, sync_playwright
except ImportError:
    sync_playwright = None

WATCH = """addEventListener("securitypolicyviolation",
    (event) => console.error(`CSP ${event.violatedDirective} ${event.blockedURI}`));"""
# What a browser itself says about a service that is gone for a moment, or refuses what was asked.
COMPLAINT = re.compile(r"Failed to load resource|ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY_RESPONSE|ERR_NETWORK")


def why_not():
    """Why there is no browser; empty: there is one."""
    if not CHROMIUM:
        return "there is no chromium; scripts/install-packages clients brings it"
    if not sync_playwright or not AXE.exists():
        return "what drives the browser is not there; scripts/install-clients brings it"
    return ""


class BrowserCase(unittest.TestCase):
    """One browser for all tests of a class, a profile of its own for each visit."""

    @classmethod
    def setUpClass(cls):
        if why_not():
            return
        SHOTS.mkdir(parents=True, exist_ok=True)
        expect.set_options(timeout=PATIENCE_MS)
        driver = sync_playwright().start()
        cls.addClassCleanup(driver.stop)
        # Shared memory is small in many containers.
        cls.browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--disable-dev-shm-usage"])
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        if why_not():
            self.skipTest(why_not())

    @contextlib.contextmanager
    def visit(self, rig, width=1280, height=860, scheme="light", enters=True, guide=False, may_complain=False,
              start="/", **more):
        """A page in front of a service; whatever it should not have done fails the test when it is left."""
        origin = f"http://127.0.0.1:{rig.port}"
        context = self.browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme,
                                           base_url=origin, locale="en-GB", **more)
        context.set_default_timeout(PATIENCE_MS)
        context.add_init_script(WATCH)
        page = context.new_page()
        faults = []

        def spoke(message):
            if message.type in ("error", "warning") and not (may_complain and COMPLAINT.search(message.text)):
                faults.append(f"console: {message.text} {message.location.get('url', '')}")

        def asked(request):
            if not request.url.startswith((origin + "/", f"blob:{origin}/")):
                faults.append(f"a request to {request.url}")

        page.on("console", spoke)
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on("request", asked)
        if not guide:
            rig.ask("PATCH", "/settings", {"ui": {"guide_seen": True}})
        try:
            page.goto(start)
            if enters:
                enter(page)
            yield page
            self.assertEqual(faults, [])
        except Exception:
            page.screenshot(path=SHOTS / f"failed-{self.id().split('.')[-1]}.png")
            raise
        finally:
            context.close()

    def check_access(self, page, where):
        """No serious finding of axe, by the rules of WCAG 2.2 A and AA."""
        # The page's own policy lets no script in; the driver may put it there all the same.
        if not page.evaluate("typeof axe === 'object'"):
            page.evaluate(AXE.read_text())
        found = page.evaluate("""async () => {
            const runOnly = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
            const { violations } = await axe.run({ runOnly });
            return violations.map((one) => [one.impact, one.id, one.nodes.map((node) => node.target.join(" "))]);
        }""")
        serious = [one for one in found if one[0] in ("serious", "critical")]
        self.assertEqual(serious, [], where)


def enter(page):
    page.fill("#token", TOKEN)
    page.keyboard.press("Enter")
    page.wait_for_selector("main h1")


def shot(page, name):
    page.screenshot(path=SHOTS / f"{name}.png")


def drop(page, selector, *pictures):
    """Files let fall on an element, as from the desktop."""
    files = [{"name": name, "content": base64.b64encode(content).decode()} for name, content in pictures]
    transfer = page.evaluate_handle("""(files) => {
        const transfer = new DataTransfer();
        for (const { name, content } of files) {
            const bytes = Uint8Array.from(atob(content), (c) => c.charCodeAt(0));
            transfer.items.add(new File([bytes], name, { type: "image/png" }));
        }
        return transfer;
    }""", files)
    for event in ("dragenter", "dragover", "drop"):
        page.dispatch_event(selector, event, {"dataTransfer": transfer})
