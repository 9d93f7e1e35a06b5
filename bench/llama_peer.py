"""A peer of bench/compare: llama.cpp, as the package cyllama brings it, reading a prompt.

    llama_peer.py MODEL.gguf TOKENS THREADS

Takes turns as `kuno bench --paced` does: says {"bench": "ready"}, waits for a line, tells how long that took.
"""

import json
import random
import sys
import time

from cyllama.llama import llama_cpp

import processor_time


def open_context(path, tokens, threads):
    model = llama_cpp.LlamaModel(path, llama_cpp.LlamaModelParams())
    wanted = llama_cpp.LlamaContextParams()
    wanted.n_ctx = wanted.n_batch = wanted.n_ubatch = max(tokens, 64)
    wanted.n_threads = wanted.n_threads_batch = threads
    return llama_cpp.LlamaContext(model, wanted)


def read_prompt(context, ids):
    context.kv_cache_clear()
    cpu, start = processor_time.used(), time.perf_counter()
    context.decode(llama_cpp.llama_batch_get_one(ids))
    return {"bench": "run", "seconds": time.perf_counter() - start, "cpu_seconds": processor_time.used() - cpu}


def main(path, tokens, threads):
    llama_cpp.disable_logging()
    llama_cpp.llama_backend_init()
    llama_cpp.ggml_backend_load_all()
    context = open_context(path, int(tokens), int(threads))
    ids = [random.Random(0).randrange(1000, 100000) for _ in range(int(tokens))]
    read_prompt(context, ids)
    print(json.dumps({"bench": "ready"}), flush=True)
    for _ in sys.stdin:
        print(json.dumps(read_prompt(context, ids)), flush=True)
        print(json.dumps({"bench": "ready"}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
