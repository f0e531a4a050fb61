#!/usr/bin/env python3
"""Stores what the logits processors of `transformers` make of random logits, for the tests of the samplers.

    python3 -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python tools/text_samplers.py tests/unit/text/data/samplers.json

Each case has options, logits, prompt and generated tokens, and the ids and probabilities of the tokens that are left,
computed in f64. `transformers` has no presence and frequency penalties: they are taken off here as the API of OpenAI
defines them. With --cases N it makes N cases instead of the stored 60; --seed changes them.
"""
import argparse
import json
import pathlib
import random

import torch
from transformers.generation import logits_process as processors


def options(rng):
    chosen = {}
    if rng.random() < 0.7:
        chosen["temperature"] = rng.choice([0.1, 0.7, 1.3, 3.0])
    if rng.random() < 0.4:
        chosen["top_k"] = rng.randint(1, 40)
    if rng.random() < 0.4:
        chosen["top_p"] = rng.choice([0.05, 0.5, 0.9, 0.99])
    if rng.random() < 0.4:
        chosen["min_p"] = rng.choice([0.01, 0.05, 0.3, 1.0])
    if rng.random() < 0.4:
        chosen["typical_p"] = rng.choice([0.1, 0.5, 0.95])
    if rng.random() < 0.4:
        chosen["repetition_penalty"] = rng.choice([0.8, 1.1, 2.0])
    if rng.random() < 0.4:
        chosen["presence_penalty"] = rng.choice([-1.0, 0.5, 2.0])
    if rng.random() < 0.4:
        chosen["frequency_penalty"] = rng.choice([-0.5, 0.25, 1.0])
    if rng.random() < 0.4:
        chosen["logit_bias"] = [[i, rng.choice([-5.0, 0.5, 3.0])] for i in sorted(rng.sample(range(24), 3))]
    return chosen


def left_over(case):
    o, ids = case["options"], torch.tensor([case["prompt"] + case["generated"]], dtype=torch.long)
    scores = torch.tensor([case["logits"]], dtype=torch.float64)
    if "repetition_penalty" in o:
        scores = processors.RepetitionPenaltyLogitsProcessor(o["repetition_penalty"])(ids, scores)
    for token in case["generated"]:
        scores[0, token] -= o.get("frequency_penalty", 0)
    for token in set(case["generated"]):
        scores[0, token] -= o.get("presence_penalty", 0)
    if "logit_bias" in o:
        biases = {(token,): bias for token, bias in o["logit_bias"]}
        scores = scores + processors.SequenceBiasLogitsProcessor(biases)(ids, torch.zeros_like(scores)).double()
    if "temperature" in o:
        scores = processors.TemperatureLogitsWarper(o["temperature"])(ids, scores)
    if "top_k" in o:
        scores = processors.TopKLogitsWarper(o["top_k"])(ids, scores)
    if "top_p" in o:
        scores = processors.TopPLogitsWarper(o["top_p"])(ids, scores)
    if "min_p" in o:
        scores = processors.MinPLogitsWarper(o["min_p"])(ids, scores)
    if "typical_p" in o:
        scores = processors.TypicalLogitsWarper(o["typical_p"])(ids, scores)
    probabilities = torch.softmax(scores, -1)[0]
    kept = [i for i in range(len(case["logits"])) if scores[0, i] != -float("inf")]
    return kept, [float(probabilities[i]) for i in kept]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    cases = []
    for _ in range(args.cases):
        size = rng.choice([24, 64])
        # Exact in f32, and different from each other: which of equal ones a filter keeps is up to the program.
        logits = [k / 1024 for k in rng.sample(range(-8000, 8000), size)]
        case = {"options": options(rng), "logits": logits,
                "prompt": [rng.randrange(size) for _ in range(rng.randint(1, 6))],
                "generated": [rng.randrange(size) for _ in range(rng.randint(0, 8))]}
        case["ids"], case["probabilities"] = left_over(case)
        cases.append(case)
    args.file.write_text(json.dumps(cases) + "\n")


if __name__ == "__main__":
    main()
