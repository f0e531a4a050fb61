#!/usr/bin/env python3
"""Luminal beside its peers, in one run: systems are timed in turn, a sample each, so that a machine that slows down
slows all of them, between probes of what the machine gives. Prints a table and writes a list of {suite, case, threads,
ours_us, peers, limit_us, ratio_best_peer, ratio_limit, rounds, rounds_tried}: medians of the samples, and what the
machine's peaks, measured before and after each of them (the fma peak every few milliseconds during our sample: the
clock changes with what runs), allow. Ratios above 1 are in our favour.

  compare.py --luminal build/release/luminal [--python build/peers/bin/python] [--out build/bench.json]
             [--suite gemm,conv] [--only 1024] [--peers torch,jax] [--threads 1,2] [--repeats 7] [--mode optimal]
             [--against OTHER_BINARY] [--page build/bench.html]
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import page  # noqa: E402
from cases import CASES  # noqa: E402
from output import write  # noqa: E402

KEEP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "17179869184", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}

SETTLE_S = 0.02  # threads of the system before go on spinning for milliseconds
STEADY = 0.9     # of the best peak: a round in which the machine gave less does not count


class System:
    """A process that answers one request a line."""

    def __init__(self, name, command, environment):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, **environment))

    def ask(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"bench: {self.name} ended with {self.process.wait()} at {request}")
        return json.loads(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def threads_environment(threads):
    names = ("LUMINAL_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS")
    return {name: str(threads) for name in names}


# name: file, arguments, environment. "kept": memory is kept from run to run, in huge pages, as a plan's arena is; that
# is the bar. Without it, what users see.
PEERS = {
    "torch": ("torch_peer.py", ["eager"], {}),
    "torch kept": ("torch_peer.py", ["eager"], KEEP),
    "torch channels-last": ("torch_peer.py", ["channels-last"], {}),
    "torch channels-last kept": ("torch_peer.py", ["channels-last"], KEEP),
    "torch compile kept": ("torch_peer.py", ["compile"], KEEP),
    "jax kept": ("jax_peer.py", [], KEEP),
    "onnx kept": ("onnx_peer.py", [], KEEP),
    "blis": ("blas_peer.py", ["libblis.so.4"], {}),
    "openblas": ("blas_peer.py", ["libopenblas.so.0"], {}),
}
MODULES = {"torch_peer.py": ["torch"], "jax_peer.py": ["jax"], "onnx_peer.py": ["onnxruntime", "onnx"],
           "blas_peer.py": ["numpy"]}


def available(python, file, arguments):
    """Whether this machine has the peer: its Python modules, its library."""
    check = "import importlib.util as u, ctypes, sys\n" \
        f"ok = all(u.find_spec(m) for m in {MODULES[file]!r})\n" \
        f"[ctypes.CDLL(a) for a in {[a for a in arguments if '.so' in a]!r}]\n" \
        "sys.exit(not ok)"
    return subprocess.run([python, "-c", check], stderr=subprocess.DEVNULL).returncode == 0


def start_systems(options, threads):
    environment = threads_environment(threads)
    ours = System("luminal", [options.luminal, "bench", "--serve", "--mode", options.mode], environment)
    folder, peers = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers"), []
    for name, (file, arguments, extra) in PEERS.items() if options.python else ():
        if options.peers and not any(name.startswith(each) for each in options.peers.split(",")):
            continue
        if not available(options.python, file, arguments):
            print(f"bench: no {name} here, so no figures of it", file=sys.stderr)
            continue
        # Peers unset what older BLAS builds need and what slows newer ones.
        peers.append(System(name, [options.python, os.path.join(folder, file), str(threads), *arguments],
                            dict(environment, OPENBLAS_CORETYPE="") | extra))
    if options.against:
        peers.append(System("against", [options.against, "bench", "--serve", "--mode", options.mode], environment))
    return ours, peers


def limit_us(case, limits):
    compute = case["flops"] / limits["flops_per_us"]
    fits = case["bytes"] <= limits["cache_bytes"] / 2
    memory = case["bytes"] / limits["cache_bytes_per_us" if fits else "memory_bytes_per_us"]
    return max(compute, memory)


def collect_rounds(systems, request, options):
    """Rounds of one sample from each system, a probe of the machine's limits before and after each. Those in which the
    machine did not give its processors all along do not count (a shared host halves its peak for seconds at a time),
    unless it never does: then the best ones count."""
    ours, rounds = systems[0], []
    probe = ours.ask({"limits": True})
    for _ in range(3 * options.repeats):
        before, samples = probe, {}
        for system in systems:
            time.sleep(SETTLE_S)
            answer = system.ask(dict(request, peak=system is ours))
            samples[system.name] = answer["us"]
            if system is ours:
                peak = answer["flops_per_us"]
        time.sleep(SETTLE_S)
        probe = ours.ask({"limits": True})
        limits = {key: (before[key] + probe[key]) / 2 for key in before if key.endswith(("_per_us", "_bytes"))}
        limits["flops_per_us"] = peak
        rounds.append({"samples": samples, "limits": limits,
                       "least": min(before["flops_per_us"], probe["flops_per_us"]),
                       "most": max(before["flops_per_us"], probe["flops_per_us"])})
        best = max(r["most"] for r in rounds)
        good = [r for r in rounds if r["least"] >= STEADY * best]
        if len(good) >= options.repeats:
            return good, len(rounds)
    return sorted(rounds, key=lambda r: -r["least"])[: options.repeats], len(rounds)


def measure(case, ours, peers, options, threads):
    request = dict(case, ms=options.ms)
    first = ours.ask(request)
    if "error" in first:
        print(f"{case['suite']:14} {case['case']:42} {threads} threads: {first['error']}", file=sys.stderr)
        return None
    peers = [p for p in peers if not {"skip", "error"} & p.ask(request).keys()]
    rounds, tried = collect_rounds([ours, *peers], request, options)
    medians = {s.name: statistics.median(r["samples"][s.name] for r in rounds) for s in [ours, *peers]}
    limits = [limit_us(case, r["limits"]) for r in rounds]
    ours_us = medians.pop("luminal")
    row = {"suite": case["suite"], "case": case["case"], "threads": threads, "ours_us": round(ours_us, 3),
           "peers": {name: round(us, 3) for name, us in medians.items()}, "limit_us": round(statistics.median(limits), 3),
           "ratio_best_peer": round(min(medians.values()) / ours_us, 3) if medians else None,
           "ratio_limit": round(statistics.median(l / r["samples"]["luminal"] for l, r in zip(limits, rounds)), 3),
           "flops": case["flops"], "bytes": case["bytes"], "compile_s": round(first["compile_us"] * 1e-6, 3),
           "flops_per_us": round(statistics.median(r["limits"]["flops_per_us"] for r in rounds)),
           "memory_bytes_per_us": round(statistics.median(r["limits"]["memory_bytes_per_us"] for r in rounds)),
           "rounds": len(rounds), "rounds_tried": tried}
    best = min(medians, key=medians.get) if medians else "none"
    print(f"{row['suite']:14} {row['case']:42} {threads} {ours_us:11.1f} {row['limit_us']:11.1f} "
          f"{row['ratio_limit']:8.2f} {medians.get(best, 0):11.1f} {row['ratio_best_peer'] or 0:7.2f}  {best}", flush=True)
    return row


def print_means(rows):
    """What bars are about: the geometric mean of each suite beside its best peers, and the least."""
    for suite, threads in dict.fromkeys((row["suite"], row["threads"]) for row in rows):
        ratios = [(row["ratio_best_peer"], row["case"]) for row in rows
                  if (row["suite"], row["threads"]) == (suite, threads) and row["ratio_best_peer"]]
        if ratios:
            mean = math.exp(statistics.fmean(math.log(ratio) for ratio, _ in ratios))
            print(f"{suite:14} {threads} threads: geometric mean {mean:.2f} of {len(ratios)}, least {min(ratios)[0]:.2f} "
                  f"({min(ratios)[1]})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--luminal", default="build/release/luminal")
    parser.add_argument("--python", default="build/peers/bin/python")
    parser.add_argument("--out", default="build/bench.json")
    parser.add_argument("--only", default="", help="cases whose suite and name contain this")
    parser.add_argument("--suite", default="", help="these suites, separated by commas")
    parser.add_argument("--peers", default="", help="these peers, by how their names begin, separated by commas")
    parser.add_argument("--against", default="", help="another build's luminal, a peer like the others")
    parser.add_argument("--page", default="", help="write a page of rooflines here")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--ms", type=float, default=40, help="length of a sample")
    parser.add_argument("--mode", default="optimal")
    options = parser.parse_args()
    if not os.path.exists(options.python):
        print(f"bench: no peers at {options.python}; `make bench-peers` sets them up", file=sys.stderr)
        options.python = ""
    rows = []
    print(f"{'suite':14} {'case':42} T {'ours us':>11} {'limit us':>11} {'limit/us':>8} {'peer us':>11} {'peer/us':>7}  best peer")
    for threads in map(int, options.threads.split(",")):
        ours, peers = start_systems(options, threads)
        for case in CASES:
            wanted = not options.suite or case["suite"] in options.suite.split(",")
            if wanted and options.only in case["suite"] + " " + case["case"]:
                row = measure(case, ours, peers, options, threads)
                rows += [row] if row else []
        for system in [ours, *peers]:
            system.close()
    print_means(rows)
    write(options.out, json.dumps(rows, indent=1))
    if options.page:
        write(options.page, page.of(rows))


main()
