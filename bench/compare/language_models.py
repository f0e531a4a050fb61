#!/usr/bin/env python3
"""Language models beside llama.cpp, in turn: a prompt of 512 tokens and 64 generated ones, as `luminal bench` times them.

  language_models.py --luminal build/release/luminal --python VENV/bin/python model-q4_0.gguf ...

The Python is one that has llama-cpp-python (pip install --no-binary llama-cpp-python llama-cpp-python builds it for this
machine). Prints a row for each file: medians of tokens a second, ours, llama.cpp's and the ratio. Models with random
weights do: `luminal random-model`, `luminal quantize`.
"""
import argparse
import json
import os
import statistics
import subprocess

PEER = """
import json, random, sys, time
from llama_cpp import Llama
model, prompt, generated, repeats = sys.argv[1], *map(int, sys.argv[2:])
llama = Llama(model, n_ctx=2 * prompt, n_threads=2, n_threads_batch=2, n_batch=prompt, n_ubatch=prompt, verbose=False)
tokens = [random.randrange(1000, 20000) for _ in range(prompt)]

def seconds(run):
    llama.reset()
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin

def generate():
    for token in tokens[:generated]:
        llama.eval([token])

seconds(lambda: llama.eval(tokens)), seconds(generate)  # pages are read, threads are there
print(json.dumps({"pp": [prompt / seconds(lambda: llama.eval(tokens)) for _ in range(repeats)],
                  "tg": [generated / seconds(generate) for _ in range(repeats)]}))
"""


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=dict(os.environ, LUMINAL_THREADS="2"))
    if done.returncode != 0:
        raise SystemExit(f"language_models: {' '.join(command[:3])} ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--luminal", default="build/release/luminal")
    parser.add_argument("--python", default="build/peers/bin/python")
    parser.add_argument("--rounds", type=int, default=2, help="how often both take their turn")
    parser.add_argument("models", nargs="+")
    options = parser.parse_args()
    prompt, generated, repeats = 512, 64, 3
    print("| model | | ours | llama.cpp | ratio |\n|---|---|---:|---:|---:|")
    for model in options.models:
        ours, theirs = {"pp": [], "tg": []}, {"pp": [], "tg": []}
        for _ in range(options.rounds):
            for result in run([options.luminal, "bench", model, "-p", str(prompt), "-n", str(generated),
                               "-r", str(repeats), "--json"]):
                ours[result["test"][:2]] += result["samples"]
            for test, samples in run([options.python, "-c", PEER, model, str(prompt), str(generated),
                                      str(repeats)]).items():
                theirs[test] += samples
        for test, name in (("pp", f"prompt of {prompt}"), ("tg", "generation")):
            a, b = statistics.median(ours[test]), statistics.median(theirs[test])
            print(f"| {os.path.basename(model)} | {name} | {a:.0f} | {b:.0f} | {a / b:.2f} |", flush=True)


if __name__ == "__main__":
    main()
