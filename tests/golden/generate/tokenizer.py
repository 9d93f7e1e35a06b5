"""A small byte-level BPE tokenizer in the Qwen file layout, and token ids for many strings."""

import json
import os
from collections import Counter

from common import Dice, write_json
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, AddedToken

PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

SPECIAL = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>",
    "<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>",
    "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>",
]  # fmt: skip
NOT_SPECIAL = [
    "<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>",
    "<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>", "<think>", "</think>",
]  # fmt: skip

KREA_PREFIX = (
    "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, "
    "spatial relationships of the objects and background:<|im_end|>\n<|im_start|>user\n"
)
KREA_SUFFIX = "<|im_end|>\n<|im_start|>assistant\n"
ZIMAGE_PREFIX = "<|im_start|>user\n"
ZIMAGE_SUFFIX = "<|im_end|>\n<|im_start|>assistant\n"

SENTENCES = [
    "a red fox walking through fresh snow at sunrise, soft golden light",
    "the old lighthouse keeper reads a letter beside the stove",
    "three ceramic mugs on a wooden table, one of them chipped",
    "an oil painting of a harbor town in heavy rain",
    "photo of a street market at night with neon signs reading OPEN 24 HOURS",
    "isometric drawing of a small greenhouse full of ferns",
    "a portrait of a robot gardener, watercolor on rough paper",
    "blurry, low quality, distorted hands, watermark",
    "wide shot of a desert road under a sky with two moons",
    "close-up macro of dew on a spider web, shallow depth of field",
    "a child's drawing of a house, a tree and a very large cat",
    "black and white photograph of jazz musicians in a smoky club",
    "architectural sketch of a bridge made of glass and bamboo",
    "a still life with lemons, a blue bottle and crumpled linen",
    "snowy mountain village, smoke rising from the chimneys",
    "cutaway diagram of a submarine with labels",
]


def byte_symbols():
    """GPT-2 byte-to-character table, in vocabulary order: printable bytes first, then the other 68."""
    printable = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    table, order, extra = {}, [], 0
    for b in printable:
        table[b] = chr(b)
        order.append(b)
    for b in range(256):
        if b not in table:
            table[b] = chr(256 + extra)
            order.append(b)
            extra += 1
    return table, [table[b] for b in order]


def learn_merges(words, count, table):
    """Plain greedy BPE; ties go to the pair that comes first in the alphabet."""
    corpus = Counter(tuple(table[b] for b in w.encode("utf-8")) for w in words)
    merges = []
    while len(merges) < count:
        pairs = Counter()
        for symbols, n in corpus.items():
            for pair in zip(symbols, symbols[1:]):
                pairs[pair] += n
        if not pairs:
            break
        best = min(pairs, key=lambda p: (-pairs[p], p))
        merges.append(best)
        joined = Counter()
        for symbols, n in corpus.items():
            out, i = [], 0
            while i < len(symbols):
                if i + 1 < len(symbols) and (symbols[i], symbols[i + 1]) == best:
                    out.append(symbols[i] + symbols[i + 1])
                    i += 2
                else:
                    out.append(symbols[i])
                    i += 1
            joined[tuple(out)] += n
        corpus = joined
    return merges


def make_tokenizer(vocab, merges, added):
    tok = Tokenizer(models.BPE(vocab=vocab, merges=merges, continuing_subword_prefix="", end_of_word_suffix=""))
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in added if t in SPECIAL])
    tok.add_tokens([AddedToken(t, special=False, normalized=False) for t in added if t not in SPECIAL])
    return tok


def build_tiny(seed, out, merge_count=None):
    dice = Dice(seed, "tokenizer")
    table, symbols = byte_symbols()
    sentences = SENTENCES[:]
    dice.choices.shuffle(sentences)
    text = " ".join(sentences[:12])
    pre = pre_tokenizers.Split(Regex(PATTERN), behavior="isolated")
    words = [w for w, _ in pre.pre_tokenize_str(text)]
    words += ["system", "user", "assistant"] * 40
    words += [w for w, _ in pre.pre_tokenize_str("Describe the image by detailing the color, shape, size")] * 3
    merges = learn_merges(words, merge_count or dice.pick(range(180, 261)), table)
    vocab = {s: i for i, s in enumerate(symbols)}
    for i, (a, b) in enumerate(merges):
        vocab[a + b] = 256 + i
    tok = make_tokenizer(vocab, merges, SPECIAL + NOT_SPECIAL)
    os.makedirs(out, exist_ok=True)
    tok.save(os.path.join(out, "tokenizer.json"), pretty=False)
    with open(os.path.join(out, "vocab.json"), "w", encoding="utf-8") as f:
        json.dump(vocab, f, ensure_ascii=False)
    with open(os.path.join(out, "merges.txt"), "w", encoding="utf-8") as f:
        f.write("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    added = {
        str(tok.token_to_id(t)): {
            "content": t, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
            "special": t in SPECIAL,
        }
        for t in SPECIAL + NOT_SPECIAL
    }  # fmt: skip
    write_json(
        os.path.join(out, "tokenizer_config.json"),
        {
            "add_prefix_space": False,
            "added_tokens_decoder": added,
            "bos_token": None,
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "model_max_length": 131072,
            "tokenizer_class": "Qwen2Tokenizer",
            "unk_token": None,
        },
    )
    return tok


def prefix_length(tok, prefix):
    return len(tok.encode(prefix, add_special_tokens=False).ids)


# ----------------------------------------------------------------------------------------------------------------
FIXED_STRINGS = [
    "", " ", "  ", "   ", "\n", "\n\n", " \n", "\n ", "\r\n", "\r", "\t", "\t\t", " \t ", "a", " a", "a ", "  a  b ",
    "Hello", "Hello, world!", "hello world", "HELLO", "don't", "DON'T", "Don'T've", "it's we're I'm you'll he'd they've",
    "'s", "'S 'T 'RE 'VE 'M 'LL 'D", "o'clock", "rock 'n' roll", "'ſ", "it'ſ", "'K", "0", "7", "42", "123456",
    "3.14159", "1,234,567.89", "2026-11-29", "v1.2.3-beta", "0x1F", "１２３", "Ⅷ", "½", "²³", "٣٤٥", "x²+y²=z²",
    "①②③", "a1b2c3", "foo_bar", "foo-bar", "foo.bar", "foo/bar\\baz", "C++ vs C#", "a+b=c", "!!!", "?!", "...", "…",
    "—", "–", "“quoted”", "«guillemets»", "$100", "€5", "50%", "#hashtag @user", "user@example.com",
    "https://example.com/path?x=1&y=2#frag", "<b>bold</b>", "{\"key\": [1, 2, 3]}", "line one\nline two",
    "line one\r\nline two\r\n", "para one\n\n\npara two", "trailing spaces   ", "   leading spaces",
    "tabs\tand\tspaces", "mixed \n \n newlines", "text \n", "text\n text", "a  \n  b", "word     word",
    "hello !!!\nnext", "!\n\n?", "end.\n", "end. \n", "( parens )", "[brackets]", "a\u00a0b", "\u00a0", "\u3000",
    "全角　空格", "\u2028", "a\u2028b", "\u2029x", "\u0085", "a\u0085b", "\u200b", "a\u200bb", "\ufeffBOM", "\x00", "a\x00b",
    "\x01\x02", "\x1f", "\x1c\x1d", "\x7f", "\u180e", "\x0b\x0c", "é", "e\u0301", "café", "cafe\u0301", "Å", "A\u030a", "\u212b", "ñ", "n\u0303",
    "한국어", "\u1112\u1161\u11ab", "각", "\u1100\u1161\u11a8", "\u0958", "\u0915\u093c", "ﬁ", "ﬀ", "\u1e9b\u0323", "\u0344", "\u2126", "\u2000x", "\u2001",
    "ａｂｃ", "Straße", "STRASSE", "İstanbul", "ı", "naïve façade", "Ünïcödé", "Ωmega", "Привет, мир!", "Здравствуйте",
    "Γειά σου Κόσμε", "שלום עולם", "مرحبا بالعالم", "السلام عليكم ١٢٣", "नमस्ते दुनिया", "สวัสดีชาวโลก",
    "வணக்கம்", "ສະບາຍດີ", "გამარჯობა", "Բարեւ", "ሰላም", "你好，世界！", "你好世界", "一只红色的狐狸在雪地里行走", "天气不错。明天呢？",
    "日本語のテキスト", "こんにちは世界", "カタカナ", "ｶﾀｶﾅ", "が", "か\u3099", "パ", "ハ\u309a", "混合 mixed 文本 text 123", "價格：￥100",
    "안녕하세요 세계", "🙂", "🙂🙃", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇺🇳", "❤️", "☕", "⚡️fast", "text🙂text", "🙂 🙂", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢",
    "𝟘𝟙𝟚", "𐍈", "🜁", "a\u0300\u0301\u0302", "Z̴̢a̵l̷g̸o̴", "ﷺ", "\u202eabc", "a\u0301\u0327", "a\u0327\u0301", "\u0e33", "ำ", "๓", "१२३", "ৡ", "Ǆ ǅ ǆ", "ʰ", "ª º",
    "ᵃ", "ⓐ", "㈱", "㎏", "㍿", "☺︎", "™ ® ©", "№ 5", "°C", "µm", "μm", "∑∫√", "→ ← ↑", "─│┌", "█▓▒", "\ue000", "\ufffd", "\ufffe", "\U0010fffd",
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|im_start|>user\nhi<|im_end|>", "a<|im_end|>b", " <|im_end|> ",
    "<|im_start|><|im_start|>", "<|im_start", "|im_start|>", "<|IM_START|>", "<|im_start |>", "<|vision_start|><|image_pad|><|vision_end|>",
    "<think>\n\n</think>\n\n", "<tool_call>{}</tool_call>", "x<think>y</think>z", "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>",
    "<|object_ref_start|>cat<|object_ref_end|><|box_start|>(1,2)<|box_end|>", "é<|im_end|>e\u0301", "e\u0301<|im_end|>", "a\n<|im_end|>\nb",
    "def f(x):\n    return x + 1\n", "for (int i = 0; i < n; ++i) { sum += a[i]; }", "SELECT * FROM t WHERE id = 'x';",
    "if x:\n\tpass\n\n\n\telse", "The quick brown fox jumps over the lazy dog.", "supercalifragilisticexpialidocious",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "ababababababababab", "          ", "\n\n\n\n\n\n\n\n", "=" * 40, "-" * 33, "🙂" * 20,
    "Wwwww", "iiiiIIII", "lower UPPER MiXeD", "semi;colon:colon,comma.period", "\"double\" 'single' `back`", "''''", "'' s", "'sso", "x's'm",
    "I'M SURE IT'S 5'11\"", "¿Qué tal? ¡Bien!", "Łódź", "Đà Nẵng", "Việt Nam", "Tiếng Việt có dấu", "ÀÉÎÕÜ", "ǅ", "ß", "ẞ", "ŉ",
]  # fmt: skip

WORDS = (
    "amber angular basalt birch canyon ceramic cobalt crane dawn delta ember fable fjord gleaming harbor indigo jagged "
    "kelp lantern meadow nebula obsidian prism quartz ridge saffron thicket umber velvet willow xylophone yonder zephyr"
).split()


def make_prompt(dice):
    """A sentence with a few more words, different for every seed."""
    tail = " ".join(dice.pick(WORDS) for _ in range(dice.choices.randrange(1, 7)))
    extra = dice.pick(["", "", ", 35mm", ", “no text”", "; it's 8k!", ", 山水", " ☂️", ", façade №7", "\nsecond line"])
    return f"{dice.pick(SENTENCES)}, {tail}{extra}"


def strings(seed, total=300):
    dice = Dice(seed, "tokenizer-strings")
    out = FIXED_STRINGS[:]
    # Prompts whose leading or trailing white space meets the line ends of the templates.
    out += [KREA_PREFIX + p + KREA_SUFFIX for p in ("", "\nfox", " \n  fox \n", "<|im_start|>user\nfox")]
    out += [ZIMAGE_PREFIX + p + ZIMAGE_SUFFIX for p in ("", "\n\nfox \n", "  fox  ", "\u0301fox<|im_end|>")]
    alphabets = [
        [chr(c) for c in range(32, 127)],
        [chr(c) for c in range(0xA0, 0x250)],
        [chr(c) for c in list(range(0x370, 0x400)) + list(range(0x400, 0x500))],
        [chr(c) for c in range(0x4E00, 0x9FA5)],
        [chr(c) for c in list(range(0x3040, 0x3100)) + list(range(0xAC00, 0xAD00))],
        [chr(c) for c in range(0x1F300, 0x1F650)],
        [chr(c) for c in range(0x300, 0x340)] + list("aeiou nA"),
        list(" \t\n\r\u00a0\u3000") + list("ab1!'"),
        list("'sStTdDmMlLrReEvV ") + ["\u017f", "\u212a"],
        [chr(c) for c in range(0x0600, 0x0700)] + [chr(c) for c in range(0x0900, 0x0980)],
    ]
    while len(out) < total - 6:
        kind = dice.choices.randrange(3)
        if kind == 0:
            n = dice.choices.randrange(3, 25)
            text = " ".join(dice.pick(WORDS) for _ in range(n))
            out.append(text.capitalize() + dice.pick([".", "!", "", ", 4k", " --", "\n"]))
        else:
            letters = dice.pick(alphabets) if kind == 1 else sum((dice.pick(alphabets)[:40] for _ in range(3)), [])
            out.append("".join(dice.pick(letters) for _ in range(dice.choices.randrange(4, 40))))
    for n in (200, 700):
        out.append(", ".join(dice.pick(WORDS) for _ in range(n)))
    out.append("".join(chr(0x4E00 + dice.choices.randrange(20000)) for _ in range(600)))
    out.append(KREA_PREFIX + dice.pick(SENTENCES) + KREA_SUFFIX)
    out.append(ZIMAGE_PREFIX + dice.pick(SENTENCES) + ZIMAGE_SUFFIX)
    out.append("x" * 2000)
    return out


def write_cases(tok, seed, path):
    rows = []
    for text in strings(seed):
        rows.append({"text": text, "ids": tok.encode(text, add_special_tokens=False).ids})
    value = {
        "component": "tokenizer",
        "note": (
            "ids of tokenizing text as it is, special tokens recognised inside it, nothing added. In 'text' every "
            "character outside printable ASCII may be JSON-escaped."
        ),
        "krea2_prefix_token_count": prefix_length(tok, KREA_PREFIX),
        "krea2_suffix_ids": tok.encode(KREA_SUFFIX, add_special_tokens=False).ids,
        "z_image_prefix_ids": tok.encode(ZIMAGE_PREFIX, add_special_tokens=False).ids,
        "z_image_suffix_ids": tok.encode(ZIMAGE_SUFFIX, add_special_tokens=False).ids,
        "cases": rows,
    }
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as f:
        head = {k: v for k, v in value.items() if k != "cases"}
        f.write(json.dumps(head)[:-1] + ',\n"cases": [\n')
        f.write(",\n".join(json.dumps(r, separators=(",", ":")) for r in rows) + "\n]}\n")


def build_published(folder):
    """The published tokenizer, from its merges."""
    with open(os.path.join(folder, "merges.txt"), encoding="utf-8") as f:
        merges = [tuple(line.rstrip("\n").split(" ")) for line in f if not line.startswith("#version")]
    symbols = byte_symbols()[1]
    vocab = {s: i for i, s in enumerate(symbols)} | {a + b: 256 + i for i, (a, b) in enumerate(merges)}
    return make_tokenizer(vocab, merges, SPECIAL + NOT_SPECIAL)


def main(seed, out):
    tok = build_tiny(seed, os.path.join(out, "tokenizer-tiny"))
    write_cases(tok, seed, os.path.join(out, "tokenizer-tiny", "cases.json"))
    published = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "models", "qwen-tokenizer")
    write_cases(build_published(published), seed, os.path.join(out, "tokenizer-qwen", "cases.json"))
