"""Measures the studio's page: its weight, how soon something is seen, and how 10,000 pictures scroll. Ends with status
1 where one of them is worse than is promised.

    meson test -C build --benchmark page --verbose
"""

import json
import os
import statistics
import sys

from studio.rig import TOKEN, png
from studio.serve import Serve
from web.browser import CHROMIUM, sync_playwright, why_not

COUNT, PAGE, TURNS = 10_000, 200, 5
WEIGHT_MAX = 250_000  # bytes
PAINT_MAX_MS, FRAME_MAX_MS = 300, 17  # the median; 95 of 100 frames, at 60 a second
SCROLL = """async (frames) => {
    const times = [];
    const total = document.documentElement.scrollHeight - innerHeight;
    let last = 0;
    for (let i = 0; i < frames; i++) {
        const now = await new Promise(requestAnimationFrame);
        if (last) times.push(now - last);
        last = now;
        scrollTo(0, total * i / frames);
    }
    return times;
}"""


def item(number):
    name = f"img_{number:026d}"
    return {"id": name, "created_at": "2026-01-01T00:00:00Z", "job_id": None, "title": None,
            "prompt": f"picture {number}", "kind": "text_to_image", "width": 64, "height": 64,
            "media_type": "image/png", "bytes": 100, "favorite": False, "tags": [], "profile": "demo",
            "seed": str(number), "source_inputs": [], "recipe": None,
            "content_url": f"/api/v1/gallery/{name}/content", "thumbnail_url": f"/api/v1/gallery/{name}/thumbnail"}


def answer(route):
    """A gallery of very many pictures, newest first."""
    url = route.request.url
    if "/thumbnail" in url:
        route.fulfill(body=png(64, 64), content_type="image/png")
        return
    at = int(url.split("cursor=")[1].split("&")[0]) if "cursor=" in url else COUNT
    rest = max(0, at - PAGE)
    items = [item(number) for number in range(at - 1, rest - 1, -1)]
    route.fulfill(body=json.dumps({"items": items, "next_cursor": str(rest) if rest else None}),
                  content_type="application/json")


def first_paint(page):
    page.reload()
    page.wait_for_selector("main h1")
    return page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0")


def main():
    if why_not():
        print(why_not())
        return 77
    folder = os.path.join(os.path.dirname(__file__), "..", "..", "web")
    names = [name for name in os.listdir(folder) if name not in ("meson.build", "package.json")]
    weight = sum(os.path.getsize(os.path.join(folder, name)) for name in names)
    print(f"weight of the page: {weight} bytes")
    with Serve() as rig, sync_playwright() as driver:
        rig.ask("PATCH", "/settings", {"ui": {"guide_seen": True}})
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--disable-dev-shm-usage"])
        page = browser.new_page(base_url=f"http://127.0.0.1:{rig.port}", viewport={"width": 1280, "height": 860})
        page.goto("/")
        page.fill("#token", TOKEN)
        page.keyboard.press("Enter")
        page.wait_for_selector("main h1")
        paint = statistics.median(first_paint(page) for _ in range(TURNS))
        print(f"first contentful paint, median of {TURNS}: {paint:.0f} ms")
        page.route("**/api/v1/gallery?*", answer)
        page.route("**/api/v1/gallery/*/thumbnail*", answer)
        page.click(".nav a[data-name=gallery]")
        while "+" in (page.locator(".count").text_content() or "+"):
            page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
            page.wait_for_timeout(20)
        print(page.locator(".count").text_content())
        times = sorted(page.evaluate(SCROLL, 300))
        most = times[int(len(times) * 0.95)]
        print(f"frames while scrolling: median {statistics.median(times):.1f} ms, "
              f"95% within {most:.1f} ms, longest {times[-1]:.1f} ms; "
              f"cells that exist: {page.locator('.cell').count()}")
        browser.close()
    too_much = [f"{name}: {value:.1f}, at most {limit}" for name, value, limit in
                (("weight", weight, WEIGHT_MAX), ("paint", paint, PAINT_MAX_MS), ("frames", most, FRAME_MAX_MS))
                if value > limit]
    print("\n".join(too_much) or "as promised")
    return 1 if too_much else 0


if __name__ == "__main__":
    sys.exit(main())
