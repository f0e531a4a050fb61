#!/usr/bin/env python3
"""Drives `luminal serve` with OpenAI's own Python package (pip install openai).

  tools/serve_clients.py build/release/luminal MODEL                          # checks, a few seconds
  tools/serve_clients.py build/release/luminal MODEL --load 120 --clients 64  # and many clients at once

The server runs as a process of its own on a free port. Under load each client asks again and again: whole answers,
streams, and streams that it leaves. Lost are answers that do not come, come with an error or are not those that the
same request had alone. Exits with 1 if something is wrong.
"""
import argparse
import asyncio
import json
import random
import re
import subprocess
import sys
import time

import openai

KEY = "a key of the checks"
failures = []


def check(name, good, told=""):
    print(f"{'ok    ' if good else 'FAILED'} {name} {told if not good else ''}")
    if not good:
        failures.append(name)


class Server:
    def __init__(self, program, model, *options):
        self.process = subprocess.Popen([program, "serve", model, "--port", "0", "--api-key", KEY, "--alias", "served", *options],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        found = re.search(r"API: (\S+)\)", line)
        if not found:
            sys.exit(f"the server did not start: {line!r}")
        self.url = found.group(1)

    def resident_mb(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) / 1024

    def stop(self):
        self.process.terminate()
        return self.process.wait(timeout=30)


def raised(kind, call):
    try:
        call()
    except kind as error:
        return error
    return None


def checks(server):
    client = openai.OpenAI(base_url=server.url, api_key=KEY, max_retries=0)
    models = client.models.list().data
    check("models", models[0].id == "served")
    check("retrieve a model", client.models.retrieve("served").id == "served")
    messages = [{"role": "system", "content": "brief"}, {"role": "user", "content": "Hello there"}]
    ask = dict(model="served", messages=messages, max_tokens=12, temperature=0)
    whole = client.chat.completions.create(**ask)
    text = whole.choices[0].message.content
    check("chat", whole.usage.completion_tokens <= 12 and whole.choices[0].finish_reason in ("stop", "length"))
    chunks = list(client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
    check("chat stream", "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == text)
    check("usage of the stream", chunks[-1].usage == whole.usage.model_copy(update={
        "prompt_tokens_details": chunks[-1].usage.prompt_tokens_details}))
    if hasattr(client.chat.completions, "stream"):
        with client.chat.completions.stream(**ask) as stream:
            for _ in stream:
                pass
            try:
                final = stream.get_final_completion()
            except openai.LengthFinishReasonError as error:  # its word for the finish reason
                final = error.completion
            check("the package's stream helper", final.choices[0].message.content == text)
    parts = client.chat.completions.create(**{**ask, "messages": [
        {"role": "developer", "content": "brief"},
        {"role": "user", "content": [{"type": "text", "text": "Hello "}, {"type": "text", "text": "there"}]}]})
    check("contents in parts", parts.choices[0].message.content == text)
    logprobs = client.chat.completions.create(**ask, logprobs=True, top_logprobs=4).choices[0].logprobs
    check("logprobs", all(len(t.top_logprobs) == 4 and t.logprob <= t.top_logprobs[0].logprob for t in logprobs.content))
    two = client.chat.completions.create(**{**ask, "temperature": 1.5}, n=2, seed=3)
    again = client.chat.completions.create(**{**ask, "temperature": 1.5}, n=2, seed=3)
    check("n and seed", [c.message.content for c in two.choices] == [c.message.content for c in again.choices])
    if len(text) > 4:
        stopped = client.chat.completions.create(**ask, stop=[text[2:4]])
        check("stop", stopped.choices[0].message.content == text[:text.find(text[2:4])])
    done = client.completions.create(model="served", prompt=["Once", "upon"], max_tokens=5, temperature=0, logprobs=2)
    check("completions", len(done.choices) == 2 and len(done.choices[0].logprobs.tokens) == 5)
    pieces = list(client.completions.create(model="served", prompt="Once", max_tokens=5, temperature=0, stream=True))
    check("completions stream", "".join(p.choices[0].text for p in pieces) == done.choices[0].text)
    wrong = openai.OpenAI(base_url=server.url, api_key="wrong", max_retries=0)
    check("401", raised(openai.AuthenticationError, lambda: wrong.models.list()) is not None)
    error = raised(openai.BadRequestError, lambda: client.chat.completions.create(**{**ask, "temperature": -1}))
    check("400 names the field", error is not None and error.param == "temperature")
    check("404", raised(openai.NotFoundError, lambda: client.chat.completions.create(**{**ask, "model": "other"})) is not None)
    if len(models) > 1:
        vectors = client.embeddings.create(model=models[1].id, input=["a", "a b"]).data  # the package asks for base64
        plain = client.embeddings.create(model=models[1].id, input="a", encoding_format="float").data[0].embedding
        check("embeddings", len(vectors) == 2 and max(abs(x - y) for x, y in zip(vectors[0].embedding, plain)) < 1e-6)
        return
    error = raised(openai.InternalServerError, lambda: client.embeddings.create(model="served", input="a"))
    check("501 for embeddings", error is not None and error.status_code == 501)


async def load(server, clients, seconds):
    counts = dict(right=0, left=0, lost=0)
    client = openai.AsyncOpenAI(base_url=server.url, api_key=KEY, max_retries=0, timeout=300)
    # Each prompt's answer when nothing else is asked.
    prompts = [f"hello {'abcdefgh'[i]}" for i in range(8)]
    ask = [dict(model="served", messages=[{"role": "user", "content": p}], max_tokens=24, temperature=0) for p in prompts]
    alone = [(await client.chat.completions.create(**a)).choices[0].message.content for a in ask]
    end = time.monotonic() + seconds

    async def one(seed):
        choose = random.Random(seed)
        while time.monotonic() < end:
            which = choose.randrange(len(prompts))
            kind = choose.choice(["whole", "stream", "stream", "leave"])
            try:
                if kind == "whole":
                    text = (await client.chat.completions.create(**ask[which])).choices[0].message.content
                else:
                    stream = await client.chat.completions.create(**ask[which], stream=True)
                    text = ""
                    async for chunk in stream:
                        text += chunk.choices[0].delta.content or ""
                        if kind == "leave" and len(text) > 3:
                            break
                    if kind == "leave":
                        await stream.close()
                        counts["left"] += 1
                        continue
                counts["right" if text == alone[which] else "lost"] += 1
                if text != alone[which]:
                    print("lost:", repr(text), "not", repr(alone[which]))
            except Exception as error:  # whatever it is, an answer is lost
                counts["lost"] += 1
                print("lost:", repr(error))

    async def watch():
        # The first fifth fills pools and caches; what grows behind it goes on growing.
        await asyncio.sleep(seconds / 5)
        begin = server.resident_mb()
        await asyncio.sleep(max(0, end - time.monotonic() - 0.2))
        return begin, server.resident_mb()

    memory, *_ = await asyncio.gather(watch(), *[one(i) for i in range(clients)])
    print(f"{clients} clients, {seconds} s: {counts['right']} answers, {counts['left']} left early, {counts['lost']} lost; "
          f"resident memory {memory[0]:.1f} MB after a fifth of the time, {memory[1]:.1f} MB at the end")
    check("nothing lost", counts["lost"] == 0 and counts["right"] > 0)
    check("no growth", memory[1] - memory[0] < 8, f"{memory[1] - memory[0]:.1f} MB")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--embedding-model")
    parser.add_argument("--load", type=float, default=0, metavar="SECONDS")
    parser.add_argument("--clients", type=int, default=64)
    options = parser.parse_args()
    more = ["--embedding-model", options.embedding_model] if options.embedding_model else []
    server = Server(options.program, options.model, "--queue", str(2 * options.clients), *more)
    try:
        checks(server)
        if options.load > 0:
            asyncio.run(load(server, options.clients, options.load))
    finally:
        code = server.stop()
    check("the server ends cleanly", code == 0, f"exit code {code}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
