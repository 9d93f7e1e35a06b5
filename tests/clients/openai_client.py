"""The package `openai` for Python at work: openai_client.py BASE MODEL leave|stay"""

import asyncio
import sys

import openai
from steps import error, tell

BASE, MODEL, AT_TWO = sys.argv[1:4]
CHAT = [{"role": "user", "content": "hello"}]
CALL = {"model": MODEL, "temperature": 0, "seed": 1}
SHORT = {**CALL, "max_tokens": 8}
HOW = {"base_url": f"{BASE}/v1", "api_key": "unused", "max_retries": 0}
client = openai.OpenAI(**HOW)


async def side_by_side():
    """Three at the same time."""
    other = openai.AsyncOpenAI(**HOW)
    answers = await asyncio.gather(*(other.completions.create(prompt=prompt, **SHORT) for prompt in "abc"))
    return [answer.choices[0].text for answer in answers]


def leave_a_stream():
    with client.chat.completions.create(messages=CHAT, stream=True, max_tokens=400, **CALL) as stream:
        parts = [next(stream).choices[0].delta.content for _ in range(2)]
        if AT_TWO == "stay":
            list(stream)
    return parts, client.chat.completions.create(messages=CHAT, **SHORT).choices[0].message.content


tell("list", list(client.models.list()))
tell("list", [one.id for one in client.models.list()])
tell("show", client.models.retrieve(MODEL))
tell("chat", client.chat.completions.create(messages=CHAT, **SHORT))
tell("stream", list(client.chat.completions.create(messages=CHAT, stream=True, stream_options={"include_usage": True},
                                                   **SHORT)))
tell("generate", client.completions.create(prompt="a", **SHORT))
tell("stream", list(client.completions.create(prompt="a", stream=True, **SHORT)))
tell("generate", client.responses.create(model=MODEL, input="a", max_output_tokens=8, temperature=0))
tell("stream", list(client.responses.create(model=MODEL, input="a", max_output_tokens=8, temperature=0, stream=True)))
tell("embed", client.embeddings.create(model=MODEL, input=["a", "b"]))
tell("embed", client.embeddings.create(model=MODEL, input="a", encoding_format="float"))
tell("generate", asyncio.run(side_by_side()))
tell("cancel", leave_a_stream())
tell("refuse", error(openai.NotFoundError, client.chat.completions.create, model="none", messages=CHAT))
tell("refuse", error(openai.BadRequestError, client.chat.completions.create, model=MODEL, messages=[]))
tell("refuse", error(openai.NotFoundError, client.models.retrieve, "none"))
