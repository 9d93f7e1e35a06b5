"""Write model.json: describe.py WORK MODEL_FOLDER OLD_MODEL.json (whose dimensions, sampling and licence notes are kept).

Reads the shares that measure.py stored as WORK/measured_{bf16,fp8_scaled}.json.
"""
import json
import sys

from measure import SENTENCES, Pictures

PLAIN = set("""fire|broccoli|popcorn|bacon|sushi|bread|soap|jeans|high voltage|Santa Claus|Statue of Liberty|collision|cooking|desert island|
american football|tennis|yin yang|ear of corn|french fries|thumbs up|thumbs down|hot pepper|fork and knife|garlic|leafy green|butter|salt|
cooked rice|curry rice|spaghetti|green salad|oden|stuffed flatbread|custard|sake|ice|coral|mate|wood|ice hockey|lacrosse|ping pong|badminton|
dna|bubbles|bowling|mount fuji|yarn|thread|dango|fog|beans|locked|globe showing Americas""".replace("\n", "").split("|"))


def natural(name):
    """The name with the article that plain English wants."""
    if name in PLAIN or (name.endswith("s") and not name.endswith(("ss", "bus", "octopus", "cactus", "hibiscus", "lotus", "rhinoceros"))):
        return name
    if name == "sun":
        return "the sun"
    return ("an " if name[0].lower() in "aeio" or name.startswith(("um", "hour")) else "a ") + name


def main(work, folder, old):
    spec, names = json.load(open(old)), Pictures(work).names
    measured = {k: json.load(open(f"{work}/measured_{k}.json")) for k in ("bf16", "fp8_scaled")}
    pairs = [(natural(n), n) for n in names] + list(SENTENCES)
    spec["description"] = (f"Tiny Qwen-Image 2.1 that draws {len(names)} emoji-style pictures, 128x128 RGBA, from short English prompts.")
    spec["pictures"] = len(names)
    spec["measured"] = measured | {"how": "measure.py: every name with three seeds, and sentences not seen in training; right when the nearest "
                                          "learned picture is the one asked for"}
    spec["prompts"] = [p for p, _ in pairs]
    spec["prompt_pictures"] = [{"prompt": p, "picture": n} for p, n in pairs]
    spec["contact_sheet"] = "golden/contact-sheet.png, prompts in golden/contact-sheet.txt, torch seed 100 + position"
    json.dump(spec, open(f"{folder}/model.json", "w"), indent=1, ensure_ascii=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
