"""The package `ollama` for Python at work: ollama_client.py BASE MODEL leave|stay GGUF"""

import asyncio
import sys

import ollama
from steps import error, tell

BASE, MODEL, AT_TWO, GGUF = sys.argv[1:]
SHORT = {"num_predict": 8, "seed": 1, "temperature": 0}
LONG = {"num_predict": 400, "seed": 1, "temperature": 0}
CHAT = [{"role": "user", "content": "hello"}]
client = ollama.Client(host=BASE)


async def side_by_side():
    """Three at the same time."""
    other = ollama.AsyncClient(host=BASE)
    answers = await asyncio.gather(*(other.generate(MODEL, prompt, options=SHORT) for prompt in "abc"))
    return [answer.response for answer in answers]


def leave_a_stream():
    stream = client.generate(MODEL, "x", stream=True, options=LONG)
    parts = [next(stream).response, next(stream).response]
    if AT_TWO == "leave":
        stream.close()
    else:
        list(stream)
    return parts, client.generate(MODEL, "y", options=SHORT).response


tell("unload", client.generate(MODEL, keep_alive=0))
tell("list", client.list())
tell("show", client.show(MODEL))
digest = client.create_blob(GGUF)
tell("upload", digest)
tell("create", list(client.create("made", files={"made.gguf": digest}, system="made", template="{{ .Prompt }}",
                                  parameters={"num_thread": 1}, stream=True)))
tell("create", client.create("made-too", from_="made", system="too"))
tell("list", sorted((one.model, one.digest) for one in client.list().models))
tell("load", client.generate(MODEL))
tell("list", [(one.model, one.digest, one.context_length) for one in client.ps().models])
tell("generate", client.generate(MODEL, "hello", options=SHORT))
tell("generate", client.generate("made", "hello", options=SHORT, raw=True))
tell("stream", list(client.generate(MODEL, "hello", stream=True, options=SHORT)))
tell("chat", client.chat(MODEL, CHAT, options=SHORT))
tell("stream", list(client.chat(MODEL, CHAT, stream=True, options=SHORT)))
tell("embed", client.embed(MODEL, ["a", "b"]))
tell("embed", client.embed(MODEL, []))
tell("embed", client.embeddings(MODEL, "a"))
tell("generate", asyncio.run(side_by_side()))
tell("cancel", leave_a_stream())
tell("refuse", error(ollama.ResponseError, client.generate, "none", "x"))
tell("refuse", error(ollama.ResponseError, client.chat, MODEL, CHAT, keep_alive="300"))
tell("copy", [client.copy("made", "copied"), sorted(one.model for one in client.list().models)])
tell("delete", [client.delete(name) for name in ("copied", "made-too", "made")])
tell("refuse", error(ollama.ResponseError, client.delete, "made"))
tell("unload", client.generate(MODEL, keep_alive=0))
