"""The package `openai` for Python draws and edits: images_client.py BASE SLOW [FAILING], with OPENAI_API_KEY. SLOW is a
prompt that takes its time, FAILING one that the server fails at. The pictures to edit come from standard input: three
files in base64, one in a line, the last of them the mask."""

import base64
import io
import sys

import openai
from steps import error, tell

base, slow, *failing = sys.argv[1:]
client = openai.OpenAI(base_url=f"{base}/v1", max_retries=0)
ONE, OTHER, MASK = (base64.b64decode(line) for line in sys.stdin)
BOAT = {"model": "gpt-image-1", "prompt": "a red boat", "size": "256x256"}
BLUE = {"model": "gpt-image-1", "prompt": "make it blue", "size": "256x256"}


def named(picture, name):
    file = io.BytesIO(picture)
    file.name = name
    return file


def starts(answer):
    return [base64.b64decode(one.b64_json)[:4].hex() for one in answer.data]


def kinds(stream):
    return [event.type for event in stream if base64.b64decode(event.b64_json)]


tell("list", [one.id for one in client.models.list()])
tell("draw", starts(client.images.generate(**BOAT)))
tell("draw", starts(client.images.generate(n=2, response_format="b64_json", **BOAT)))
for name in ("jpeg", "webp"):
    tell("draw", starts(client.images.generate(output_format=name, output_compression=60, **BOAT)))
tell("draw", starts(client.images.generate(background="transparent", quality="low", moderation="low", **BOAT)))
tell("draw", starts(client.images.generate(**BOAT, extra_body={"seed": "42", "steps": 2})))
tell("stream", kinds(client.images.generate(**{**BOAT, "prompt": slow}, stream=True, partial_images=2)))
tell("edit", starts(client.images.edit(image=named(ONE, "a.png"), **BLUE)))
tell("edit", starts(client.images.edit(image=ONE, **BLUE)))
tell("edit", starts(client.images.edit(image=[named(ONE, "a.png"), named(OTHER, "b.png")], **BLUE)))
tell("edit", starts(client.images.edit(image=named(ONE, "a.png"), mask=named(MASK, "m.png"), n=1, **BLUE)))
tell("stream", kinds(client.images.edit(image=named(ONE, "a.png"), stream=True, **BLUE)))
tell("refuse", error(openai.BadRequestError, client.images.generate, **{**BOAT, "size": "7x7"})[:2])
tell("refuse", error(openai.BadRequestError, client.images.generate, n=99, **BOAT)[:2])
tell("refuse", error(openai.BadRequestError, client.images.edit, image=named(b"hello", "a.png"), **BLUE)[:2])
tell("refuse", error(openai.NotFoundError, client.images.generate, **{**BOAT, "model": "nobody"})[:2])
for prompt in failing:
    tell("refuse", error(openai.InternalServerError, client.images.generate, **{**BOAT, "prompt": prompt})[:2])
client.api_key = "wrong"
tell("refuse", error(openai.AuthenticationError, client.images.generate, **BOAT)[:2])
