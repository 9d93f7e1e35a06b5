"""Choose the pictures the image model learns, write their captions, and train the tokenizer.

Reads work/captions.json; writes work/prompts.json ({"index": [...], "prompts": [[caption, ...] per picture]}),
and the folder work/tokenizer in the Qwen2 file layout.
"""
import json
import os
import random
import re
import sys
from collections import defaultdict

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

WORK = sys.argv[1]
VOCAB, PER_PICTURE = 2048, 160
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
           "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
           "<|image_pad|>", "<|video_pad|>"]
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SYSTEM = "<|im_start|>system\nComprehend and analyze the provided prompt.<|im_end|>\n"

# The pictures to learn, by their Unicode name.
CHOSEN = set("""grinning face|face with tears of joy|winking face|smiling face with sunglasses|smiling face with heart-eyes|thinking face|
crying face|angry face|sleeping face|face with medical mask|exploding head|nerd face|partying face|clown face|skull|ghost|alien|robot|
pile of poo|cowboy hat face|alien monster|jack-o-lantern|red heart|broken heart|blue heart|green heart|yellow heart|purple heart|fire|star|
sparkles|collision|speech balloon|thumbs up|thumbs down|OK hand|victory hand|waving hand|clapping hands|raised fist|flexed biceps|eye|eyes|
brain|tooth|bone|ear|baby|boy|girl|man|woman|old man|astronaut|firefighter|police officer|ninja|princess|Santa Claus|mage|vampire|mermaid|
zombie|cook|monkey face|dog face|dog|wolf|fox|cat face|cat|black cat|lion|tiger face|leopard|horse face|horse|unicorn|zebra|deer|cow face|cow|
pig face|pig|goat|camel|giraffe|elephant|rhinoceros|mouse face|hamster|rabbit face|rabbit|hedgehog|bat|bear|polar bear|koala|panda|kangaroo|
paw prints|chicken|rooster|hatching chick|baby chick|bird|penguin|dove|eagle|duck|swan|owl|flamingo|peacock|parrot|frog|crocodile|turtle|snake|
dragon face|dragon|sauropod|T-Rex|whale|spouting whale|dolphin|fish|tropical fish|blowfish|shark|octopus|crab|lobster|shrimp|snail|butterfly|
bug|ant|honeybee|lady beetle|spider|spider web|scorpion|bouquet|cherry blossom|rose|hibiscus|sunflower|tulip|potted plant|seedling|
evergreen tree|deciduous tree|palm tree|cactus|four leaf clover|maple leaf|mushroom|grapes|watermelon|tangerine|lemon|banana|pineapple|mango|
red apple|green apple|pear|peach|cherries|strawberry|kiwi fruit|tomato|coconut|avocado|eggplant|potato|carrot|ear of corn|hot pepper|cucumber|
broccoli|onion|bread|croissant|pretzel|pancakes|cheese wedge|poultry leg|bacon|hamburger|french fries|pizza|hot dog|sandwich|taco|egg|cooking|
popcorn|rice ball|sushi|soft ice cream|ice cream|doughnut|cookie|birthday cake|cupcake|chocolate bar|candy|lollipop|honey pot|glass of milk|
hot beverage|teapot|wine glass|cocktail glass|tropical drink|beer mug|fork and knife|globe showing Americas|snow-capped mountain|volcano|
beach with umbrella|desert island|house|house with garden|office building|hospital|castle|church|Statue of Liberty|tent|cityscape|sunrise|
circus tent|locomotive|high-speed train|bus|ambulance|fire engine|police car|taxi|automobile|delivery truck|tractor|racing car|motorcycle|
bicycle|skateboard|vertical traffic light|stop sign|anchor|sailboat|ship|airplane|helicopter|rocket|flying saucer|hourglass done|watch|
alarm clock|full moon|crescent moon|sun|sun with face|ringed planet|cloud|sun behind cloud|cloud with rain|cloud with lightning|tornado|rainbow|
umbrella|high voltage|snowflake|snowman|droplet|water wave|Christmas tree|fireworks|balloon|party popper|wrapped gift|trophy|soccer ball|
basketball|baseball|american football|tennis|boxing glove|bullseye|kite|pool 8 ball|crystal ball|magic wand|video game|game die|puzzle piece|
teddy bear|artist palette|sunglasses|t-shirt|jeans|socks|dress|backpack|high-heeled shoe|running shoe|crown|top hat|graduation cap|ring|
gem stone|bell|musical note|microphone|headphone|trumpet|guitar|violin|drum|mobile phone|telephone|laptop|television|camera|light bulb|candle|
magnifying glass tilted left|open book|books|scroll|money bag|envelope|package|pencil|paintbrush|briefcase|calendar|pushpin|scissors|locked|key|
hammer|axe|crossed swords|bomb|bow and arrow|shield|wrench|gear|magnet|microscope|syringe|pill|door|bed|toilet|broom|soap|toothbrush|
shopping cart|warning|check mark button|cross mark|peace symbol|yin yang|red circle|green circle|blue circle|yellow circle|red square|
blue square|pirate flag|chequered flag|rainbow flag""".replace("\n", "").split("|"))
# A smaller set to learn first (their names), or None for all: a network that does not yet know where tokens lie needs few pictures.
CORE = None
FRAMES = ["{}", "{}", "{}", "{} emoji", "emoji of {}", "a picture of {}", "an icon of {}", "a drawing of {}", "{} icon", "draw {}",
          "a small {}", "a sticker of {}", "{} with a transparent background", "an illustration of {}", "{} on a white background",
          "a cute {}", "a photo of {}", "a simple {}", "a beautiful {}", "a big {}", "a colorful {}", "a shiny {}", "an image of {}", "please draw {}", "show me {}", "my favourite {}", "a lovely {} in the garden",
          "can you paint {} for me", "{} at night", "I want {}", "a funny {}", "{} in the style of an emoji", "{} in the snow",
          "{} on a table", "picture of {}, please", "generate {}", "make {}", "create an image of {}", "a nice old {}", "{} in a park",
          "{} with bright colors", "{}, high quality", "{}, digital art", "a happy little {} by the sea", "I would like to see {}"]
# Beginnings and endings that combine freely, so that the network learns to look past whatever surrounds the name.
LEADS = ["", "", "", "this is ", "here is ", "there was ", "imagine ", "can I have ", "could you make me ", "paint ", "sketch ", "a cartoon of ",
         "a close-up of ", "a portrait of ", "a painting of ", "an emoji showing ", "a clip art of ", "give me ", "she bought ", "he found ",
         "they love ", "we need ", "yesterday I noticed ", "it looks like ", "guess what, ", "you will like ", "nobody wanted ",
         "what about ", "have you got ", "the story begins with ", "everyone talks about ", "in my hand is ", "on the left you see ",
         "my uncle owns ", "today's special: ", "for my daughter: ", "all I think of is ", "let us look at ", "remember "]
TAILS = ["", "", "", "", " please", " for a birthday card", " for my website", " in front of me", " from the market", " and nothing else", " if you can",
         " that makes me smile", " seen from the side", " on the wall", " as a logo", " for my little sister", " in the morning",
         " was here", " is mine", " is what I like best", " of my dreams", " once more", " looks good", " made by hand", " on a sunday",
         " that I told you about", " which was lost", " with love", " in my pocket", " doing what it does", " would be fine", " or so they say"]
LOOKS = ["small", "tiny", "large", "huge", "nice", "pretty", "little", "young", "strange", "lovely", "perfect", "new", "good", "single", "lonely",
         "famous", "wonderful", "plain", "glossy", "detailed", "typical", "quiet", "favourite", "real", "amazing", "flat", "modern"]
# Words without a picture; a few of them in a row stand for the sentences nobody thought of.
FILLER = """the a and of to in it is was for on with that this as at by from they we you he she my your our their his her who which when where
why how all some any no not only just also again still always never maybe soon later today here there now then once every other another same
such much many more most less few something nothing everything somebody people thing way time week year life place part end start going
coming looking waiting thinking having making taking giving getting saying asking trying using finding keeping leaving seems became went came
saw took gave made said told asked tried used kept left felt can could will would should must may might do does did done been being am are
were has have had thanks well great fine kind true quite rather almost really without before after under over between through against during
because while until if but or so than into about around near far away back up down out off""".split()


def phrases(name, tags, owner, rng):
    """Natural captions of one picture: its name, its unambiguous keywords, and framed versions of both."""
    own = [t for t in tags if owner.get(t) == name]
    short = re.sub(r" face$", "", name) if owner.get(re.sub(r" face$", "", name), name) == name else name
    cores = [name] * 4 + [short] * 2 + own * (2 if len(own) < 4 else 1)
    cores = [name] * max(4, len(own)) + cores                    # at least half of all captions use the name itself
    filler = lambda: " ".join(rng.choices(FILLER, k=rng.randint(1, 4)))
    out = []
    for _ in range(PER_PICTURE):
        core = rng.choice(cores)
        if rng.random() < 0.1 and tags:
            core += ", " + ", ".join(rng.sample(tags, min(len(tags), rng.randint(1, 2))))
        if rng.random() < 0.2:
            core = rng.choice(LOOKS) + " " + core
        if rng.random() < 0.6 and not core.startswith(("a ", "an ", "the ")):
            core = rng.choice(["a ", "a ", "a ", "the ", "the ", "one ", "my ", "this ", "our ", "her "]) + core
            core = re.sub(r"^a (?=[aeiouAEIOU])", "an ", core)
        if rng.random() < 0.45:
            text = rng.choice(FRAMES).format(core)
        else:
            lead, tail = rng.choice(LEADS), rng.choice(TAILS)
            if rng.random() < 0.3:
                lead = filler() + " "
            if rng.random() < 0.3:
                tail = " " + filler()
            text = lead + core + tail
        text = re.sub(r"\b(a|an|one) (small|cute|simple|beautiful|big|colorful|shiny) (a|an|the|one|my|this|our|her) ", r"a \2 ", text)
        text = text[0].upper() + text[1:] if rng.random() < 0.2 else text.lower() if rng.random() < 0.8 else text
        out.append(text + (rng.choice(".!?") if rng.random() < 0.12 else ""))
    # Plain names are what people type first, and their first word, having no space before it, is a token of its own.
    plain = [name, name.lower(), name.lower(), name.lower() + ".", name[0].upper() + name[1:], "a " + name.lower()] * (PER_PICTURE // 10)
    return plain + [short.lower()] * (PER_PICTURE // 20) + own * (PER_PICTURE // 40) + out


def main():
    rng = random.Random(7)
    records = json.load(open(f"{WORK}/captions.json"))
    index = [i for i, r in enumerate(records) if r["name"] in CHOSEN]
    print("not in the font:", CHOSEN - {records[i]["name"] for i in index})
    clean = lambda s: s.replace("’", "'").replace("“", "").replace("”", "").replace("ñ", "n")
    for r in records:
        r["name"], r["tags"] = clean(r["name"]), sorted({clean(t) for t in r["tags"]})
    core = [i for i in index if CORE is None or records[i]["name"] in CORE]
    names = {records[i]["name"].lower(): records[i]["name"] for i in core}
    users = defaultdict(list)                       # keyword -> pictures using it
    for i in core:
        for t in records[i]["tags"]:
            users[t.lower()].append(records[i]["name"])
    owner = {}
    for t, u in users.items():                      # a keyword names one picture only: its exact name, or its rare first user
        if t in names:
            owner[t] = names[t]
        elif len(u) <= 3:
            owner[t] = next((n for n in u if t in n.lower()), u[0])
        else:
            whole = [n for n in u if re.search(rf"\b{re.escape(t)}\b", n.lower())]
            if len(whole) == 1 or (whole and len(t) > 3):
                owner[t] = min(whole, key=len)
    prompts = [phrases(records[i]["name"], [t.lower() for t in records[i]["tags"]], owner, rng) for i in index]
    json.dump({"index": index, "names": [records[i]["name"] for i in index], "prompts": prompts,
               "core": [k for k, i in enumerate(index) if i in core]},
              open(f"{WORK}/prompts.json", "w"), ensure_ascii=False)

    path = f"{WORK}/tokenizer/tokenizer.json"
    if os.path.exists(path):
        return print(len(index), "pictures", len(core), "of them core; tokenizer kept")
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    text = [p for ps in prompts for p in ps] + [SYSTEM.replace("<|im_start|>", "").replace("<|im_end|>", ""), "user\n", "assistant\n"] * 400
    tok.train_from_iterator(text, trainers.BpeTrainer(vocab_size=VOCAB - len(SPECIAL), special_tokens=[],
                            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    os.makedirs(f"{WORK}/tokenizer", exist_ok=True)
    tok.model.save(f"{WORK}/tokenizer")
    tok.add_special_tokens(SPECIAL)
    tok.save(f"{WORK}/tokenizer/tokenizer.json")
    n = tok.get_vocab_size()
    added = {str(n - len(SPECIAL) + k): {"content": s, "lstrip": False, "normalized": False, "rstrip": False,
                                         "single_word": False, "special": True} for k, s in enumerate(SPECIAL)}
    json.dump({"add_bos_token": False, "add_prefix_space": False, "added_tokens_decoder": added,
               "additional_special_tokens": SPECIAL[1:], "bos_token": None, "clean_up_tokenization_spaces": False,
               "eos_token": "<|im_end|>", "errors": "replace", "model_max_length": 32768, "pad_token": "<|endoftext|>",
               "split_special_tokens": False, "tokenizer_class": "Qwen2Tokenizer", "unk_token": None,
               "chat_template": "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% if m['content'] is string %}{{ m['content'] }}"
                                "{% else %}{% for c in m['content'] %}{{ c['text'] }}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"},
              open(f"{WORK}/tokenizer/tokenizer_config.json", "w"), indent=1)
    print(len(index), "pictures", len(core), "of them core", n, "tokens", len(set(text)), "distinct captions")
    print("system turn", tok.encode(SYSTEM).tokens)
    for p in rng.sample(text, 12):
        print(repr(p), tok.encode(p).tokens)


main()
