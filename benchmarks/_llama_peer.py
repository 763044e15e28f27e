"""llama.cpp in a process of its own: JSON lines in (`ids`, `answer`) and out (`read`, `write`, seconds).

Run by an interpreter that has `llama-cpp-python`; it needs nothing of this project.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from llama_cpp import Llama


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--context", type=int, required=True)
    options = parser.parse_args()
    model = Llama(
        options.model,
        n_ctx=options.context,
        n_threads=options.threads,
        n_threads_batch=options.threads,
        n_batch=512,
        verbose=False,
    )
    print("ready", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        model.reset()
        begun = time.perf_counter()
        model.eval(asked["ids"])
        token = model.sample(temp=0.0)
        read = time.perf_counter()
        for _ in range(asked["answer"] - 1):
            model.eval([token])
            token = model.sample(temp=0.0)
        print(json.dumps({"read": read - begun, "write": time.perf_counter() - read}), flush=True)


if __name__ == "__main__":
    main()
