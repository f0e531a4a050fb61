#!/usr/bin/env python3
"""Searches of whole networks beside their bars: how long each takes cold, in a new process with an empty cache, and once
more with what that left; in `Fast` mode and in `Optimal`. The bars are for two processors. A search that
fails ends this with 1; one above its bar does not, for machines differ. Writes the figures of `luminal bench search` as
JSON ("searches", and "depth": seconds of few and of many layers), and prints the table of docs/performance.md at the end.

  searches.py --luminal build/release/luminal [--out build/searches.json] [--only resnet] [--modes fast,optimal]
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from output import write  # noqa: E402

# Seconds: Fast, Optimal. None: no bar, but looked at all the same.
BARS = {
    "mnist-step": (0.4, 15),
    "gpt-step": (0.6, 45),
    "attention-step": (0.2, 15),
    "resnet50": (1, 45),
    "resnet50-step": (2, 90),
    "unet": (1, 60),
    "vit-b16": (1, 60),
    "lstm-step": (1, 40),
    "llama-8b-decode": (1, 60),
    "llama-8b-prompt": (1, 60),
    "encoder": (None, None),
    "mobilenet": (None, None),
    "mobilenet-step": (None, None),
}
WARM_BAR = 0.3         # of either mode
DEPTHS = (2, 48)       # layers of gpt-step in Fast mode,
DEPTH_BAR = 1.2        # and how many times as long the second may take
DEPTH_ROUNDS = 3       # in turn; the least counts


def search(luminal, name, mode, more=()):
    """What `luminal bench search` says of one workload; None if it failed."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "figures.json")
        command = [luminal, "bench", "search", name, "--mode", mode, "--json", file, *more]
        if subprocess.run(command, stdout=subprocess.DEVNULL).returncode != 0:
            return None
        with open(file) as text:
            return json.load(text)[0]


def verdict(seconds, bar):
    return "" if bar is None else f"{bar:8g} {'met' if seconds <= bar else 'ABOVE'}"


def table(rows):
    """Lines of a Markdown table, a network a line: both modes, what Optimal spends its time on, and how much it did."""
    lines = ["| seconds | `Fast` | bar | warm | `Optimal` | bar | warm | cover | compile | measure | verify | of all | kernels "
             "| timed | compared |", "|---" + "|---:" * 14 + "|"]
    both = {}
    for row in rows:
        both.setdefault(row["name"], {})[row["mode"]] = row
    for name, (fast_bar, optimal_bar) in BARS.items():
        fast, optimal = (both.get(name, {}).get(mode) for mode in ("fast", "optimal"))
        if fast is None or optimal is None:
            continue
        phases, wall = optimal["phases_s"], optimal["compile_s"]
        times = " | ".join(f"{phases[phase]:.1f}" for phase in ("cover", "compile", "measure", "verify"))
        lines.append(f"| {name} | {fast['compile_s']:.2f} | {fast_bar or ''} | {fast['warm']['compile_s']:.2f} | {wall:.1f} "
                     f"| {optimal_bar or ''} | {optimal['warm']['compile_s']:.2f} | {times} "
                     f"| {100 * phases['verify'] / wall:.0f} % | {len(optimal['kernels'])} | {optimal['timed']} "
                     f"| {optimal['compared'] / 1e6:.0f} M |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--luminal", default="build/release/luminal")
    parser.add_argument("--out", default="build/searches.json")
    parser.add_argument("--only", default="", help="networks whose name contains this")
    parser.add_argument("--modes", default="fast,optimal")
    options = parser.parse_args()
    rows, depth, failed = [], {}, False
    print(f"{'seconds':16} {'mode':8} {'wall':>8} {'bar':>8} {'':6} {'warm':>8} {'bar':>8} {'':6} {'verify':>7} share")
    for name, bars in BARS.items():
        for mode, bar in zip(("fast", "optimal"), bars):
            if options.only not in name or mode not in options.modes.split(","):
                continue
            cold = search(options.luminal, name, mode, ["--warm"])
            if cold is None:
                failed = True
                print(f"{name:16} {mode:8} failed, as said above", flush=True)
                continue
            wall, warm, verify = cold["compile_s"], cold["warm"]["compile_s"], cold["phases_s"]["verify"]
            rows.append(cold)
            print(f"{name:16} {mode:8} {wall:8.2f} {verdict(wall, bar):15} {warm:8.2f} {verdict(warm, WARM_BAR):15} "
                  f"{verify:7.1f} {100 * verify / wall:4.0f} %", flush=True)
    if options.only in "gpt-step" and "fast" in options.modes.split(","):
        least = dict.fromkeys(DEPTHS, float("inf"))
        for _ in range(DEPTH_ROUNDS):
            for layers in DEPTHS:
                found = search(options.luminal, "gpt-step", "fast", ["--dim", f"layers={layers}"])
                failed = failed or found is None
                if found:
                    least[layers] = min(least[layers], found["compile_s"])
        few, many = (least[layers] for layers in DEPTHS)
        depth = {str(layers): least[layers] for layers in DEPTHS}
        print(f"gpt-step of {DEPTHS[1]} layers in {many:.2f} s, {many / few:.2f} times that of {DEPTHS[0]} "
              f"{verdict(many / few, DEPTH_BAR)}", flush=True)
    optimal = [row for row in rows if row["mode"] == "optimal"]
    if optimal:
        verify = sum(row["phases_s"]["verify"] for row in optimal)
        print(f"verifying takes {100 * verify / sum(row['compile_s'] for row in optimal):.0f} % of all searches in Optimal")
    print("\n".join(table(rows)))
    write(options.out, json.dumps({"searches": rows, "depth": depth}, indent=1))
    return 1 if failed else 0


sys.exit(main())
