// What of the page is pure, without a browser: node --test.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

const web = new URL("../../web/", import.meta.url);
const load = (name) => import(new URL(name, web));

const { bytes, duration, fileName, isSeed } = await load("format.js");
const { draftOf, emptyDraft, requestOf, wrongOf } = await load("draft.js");
const { feather, fitView, makeHistory, toPicture, zoomView } = await load("mask.js");
const { layoutOf } = await load("grid.js");

test("seeds keep every digit and end below two to the power of 63", () => {
    for (const good of ["0", "9007199254740993", "9223372036854775807"]) assert.ok(isSeed(good), good);
    for (const bad of ["", "-1", "01", "1.0", "1e3", "9223372036854775808", "18446744073709551615", " 1"])
        assert.ok(!isSeed(bad), bad);
});

test("numbers are written as people read them", () => {
    assert.deepEqual([0, 999, 1000, 49807360, 20610813952].map(bytes), ["0 B", "999 B", "1.0 kB", "50 MB", "21 GB"]);
    assert.deepEqual([0.2, 4.4, 75, 720, 11100].map(duration), ["1 s", "4 s", "75 s", "12 min", "3 h 5 min"]);
    assert.equal(fileName({ prompt: "A red/../apple: «ü»!", id: "img_123456", media_type: "image/jpeg" }),
        "a-red-apple-ü-123456.jpg");
});

test("a draft says nothing that is at its usual", () => {
    assert.deepEqual(requestOf({ ...emptyDraft(), prompt: " A boat. " }), { prompt: "A boat." });
});

test("a draft becomes a request and a request the same draft", () => {
    const [a, b, mask] = ["a", "b", "c"].map((letter) => letter.repeat(64));
    const known = new Map([a, b, mask].map((id) => [id, { id, name: "x", width: 64, height: 64 }]));
    const requests = [
        { prompt: "x", seed: "9007199254740993", batch: 4, preset: "quality" },
        { prompt: "x", size: { mode: "auto", aspect_ratio: "3:2" } },
        { prompt: "x", size: { mode: "custom", width: 640, height: 480 }, sampler: "heun" },
        { prompt: "x", inputs: [{ input_id: a, role: "reference" }, { input_id: b, role: "reference" }] },
        { prompt: "x", inputs: [{ input_id: b, role: "source" }, { input_id: a, role: "reference" },
            { input_id: mask, role: "mask" }], feather: 0 },
        { prompt: "x", inputs: [{ input_id: a, role: "source" }], outpaint: { left: 32, bottom: 16 },
            feather: 12 },
        { prompt: "x", negative_prompt: "y", upscale: { factor: 2, upscaler: "lanczos" },
            output: { format: "webp", quality: 80, transparent: true, embed_metadata: false } },
    ];
    for (const request of requests) assert.deepEqual(requestOf(draftOf(request, known)), request);
});

test("what cannot be as it is written is known before anybody is asked", () => {
    const limits = { min_side: 16, max_side: 8192, max_prompt_bytes: 40 };
    const wrong = (change) => [...wrongOf({ ...emptyDraft(), ...change }, limits).keys()];
    assert.deepEqual(wrong({ prompt: "A red boat", seed: "7" }), []);
    assert.deepEqual(wrong({ prompt: " 🙂🙂🙂🙂🙂🙂🙂🙂🙂🙂 " }), []); // characters, not halves of them
    assert.deepEqual(wrong({ prompt: "A red boat.", negative: "x".repeat(11), seed: "07" }),
        ["prompt", "negative", "seed"]);
    assert.deepEqual(wrong({ sizeMode: "custom", width: 16, height: 8192 }), []);
    for (const side of ["", 15, 8193, 100.5, -5])
        assert.deepEqual(wrong({ sizeMode: "custom", width: side }), ["width"]);
    assert.deepEqual(wrong({ width: 8193, quality: 0 }), []); // neither is seen
    assert.deepEqual(wrong({ format: "webp", quality: 0 }), ["quality"]);
});

test("an input that the service no longer has is left out", () => {
    const request = { prompt: "x", inputs: [{ input_id: "a".repeat(64), role: "source" }], outpaint: { left: 32 } };
    assert.deepEqual(requestOf(draftOf(request)), { prompt: "x" });
});

test("strokes are taken back and done again, and what is cleared can be had back", () => {
    const history = makeHistory();
    history.add({ points: [1, 1] });
    history.add({ points: [2, 2] });
    history.undo();
    assert.equal(history.strokes.length, 1);
    history.redo();
    history.clear();
    assert.deepEqual(history.strokes.at(-1), { all: true, erase: true });
    history.undo();
    assert.deepEqual(history.strokes.map((one) => one.points), [[1, 1], [2, 2]]);
    history.add({ points: [3, 3] });
    assert.ok(!history.canRedo);
});

test("an area fades inside of its edge as it does in the engine", () => {
    const [width, height] = [9, 6];
    const shares = (pixels) => {
        const rgba = new Uint8ClampedArray(4 * width * height);
        for (let y = 0; y < height; y++)
            for (let x = 2; x < 8; x++) rgba[4 * (y * width + x) + 3] = y > 0 ? 255 : 0;
        feather(rgba, width, height, pixels);
        return (y) => Array.from({ length: width }, (_, x) => rgba[4 * (y * width + x) + 3]);
    };
    assert.deepEqual(shares(0)(1), [0, 0, 255, 255, 255, 255, 255, 255, 0]);
    const soft = shares(2); // the edge of the picture is no edge of the area
    assert.deepEqual(soft(0), Array(width).fill(0));
    assert.deepEqual(soft(1), [0, 0, 85, 85, 85, 85, 85, 85, 0]);
    assert.deepEqual(soft(2), [0, 0, 85, 170, 170, 170, 170, 85, 0]);
    for (const y of [3, 5]) assert.deepEqual(soft(y), [0, 0, 85, 170, 255, 255, 170, 85, 0]);
});

test("what is under the pointer stays there when the view grows", () => {
    const view = fitView({ width: 800, height: 600 }, { width: 400, height: 400 });
    const before = toPicture(view, 321, 123);
    const after = toPicture(zoomView(view, 3, 321, 123, { least: 0.1, most: 16 }), 321, 123);
    before.forEach((n, i) => assert.ok(Math.abs(n - after[i]) < 1e-9));
    assert.equal(zoomView(view, 1000, 0, 0, { least: 0.1, most: 16 }).scale, 16);
});

test("of ten thousand pictures only those in sight are there", () => {
    const at = (top) => layoutOf({ width: 1100, gap: 8, least: 168, count: 10000, top, height: 800 });
    for (const top of [0, 5000, 100000, 1e9]) {
        const layout = at(top);
        assert.ok(layout.to - layout.from <= layout.columns * 10, `${top}`);
        assert.ok(layout.from >= 0 && layout.to <= 10000);
    }
    assert.equal(at(0).columns, 6);
    assert.equal(at(at(0).total - 800).to, 10000);
    assert.equal(layoutOf({ width: 336, gap: 8, least: 104, count: 0, top: 0, height: 700 }).total, 0);
});

test("every text that is asked for has its words, and every word is asked for", async () => {
    const texts = (await load("en.js")).default;
    const sources = readdirSync(web).filter((name) => name.endsWith(".js") && name !== "en.js")
        .map((name) => readFileSync(new URL(name, web), "utf8")).join("\n");
    const has = (key) => key in texts || `${key}.other` in texts;
    const named = new Set([...sources.matchAll(/"([a-z_]+(?:\.[\w.]+)?)"/g)].map((one) => one[1]));
    const asked = [...sources.matchAll(/\bt\(\s*"([\w.]+)"/g)].map((one) => one[1]);
    assert.deepEqual(asked.filter((key) => !has(key)), []);
    const families = new Set([...sources.matchAll(/\bt\(`(\w+)\.\$\{/g)].map((one) => one[1]));
    families.add("problem");
    const unused = Object.keys(texts).map((key) => key.replace(/\.(one|other)$/, ""))
        .filter((key) => !named.has(key) && !families.has(key.split(".")[0]) && !key.endsWith(".title"));
    assert.deepEqual(unused, []);
});
