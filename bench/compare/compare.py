#!/usr/bin/env python3
"""Luminal beside its peers, in one run: systems are timed in turn, a sample each, so that a machine that slows down
slows all of them. Prints a table and writes a list of {suite, case, threads, ours_us, peers, limit_us, ratio_best_peer,
ratio_limit} (ratios above 1 are in our favour; the limit is what this machine's measured peaks allow).

  compare.py --luminal build/release/luminal [--python build/peers/bin/python] [--out build/bench.json]
             [--only gemm] [--threads 1,2] [--repeats 7] [--mode optimal]
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cases import CASES  # noqa: E402

KEEP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "17179869184", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


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
    names = ("LUMINAL_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return {name: str(threads) for name in names}


def start_systems(options, threads):
    environment = threads_environment(threads)
    ours = System("luminal", [options.luminal, "bench", "--serve", "--mode", options.mode], environment)
    peers = []
    if options.python and os.path.exists(options.python):
        # Peers unset what older BLAS builds need and what slows newer ones.
        worker = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peer_torch.py")
        clean = dict(environment, OPENBLAS_CORETYPE="")
        for name, variant, extra in (("torch", "eager", {}), ("torch kept", "eager", KEEP),
                                     ("torch channels-last kept", "channels-last", KEEP)):
            peers.append(System(name, [options.python, worker, str(threads), variant], dict(clean, **extra)))
    return ours, peers


def limit_us(case, limits):
    compute = case["flops"] / limits["flops_per_us"]
    fits = case["bytes"] <= limits["cache_bytes"] / 2
    memory = case["bytes"] / limits["cache_bytes_per_us" if fits else "memory_bytes_per_us"]
    return max(compute, memory)


def measure(case, ours, peers, limits, options, threads):
    peers = [p for p in peers if case["suite"] in ("conv", "train") or "channels-last" not in p.name]
    samples = {system.name: [] for system in [ours, *peers]}
    request = dict(case, ms=options.ms)
    first = ours.ask(request)
    if "error" in first:
        print(f"{case['suite']:6} {case['case']:32} {threads} threads: {first['error']}", file=sys.stderr)
        return None
    for _ in range(options.repeats):
        for system in [ours, *peers]:
            samples[system.name].append(system.ask(request)["us"])
    medians = {name: statistics.median(times) for name, times in samples.items()}
    ours_us, limit = medians.pop("luminal"), limit_us(case, limits)
    row = {"suite": case["suite"], "case": case["case"], "threads": threads, "ours_us": round(ours_us, 3),
           "peers": {name: round(us, 3) for name, us in medians.items()}, "limit_us": round(limit, 3),
           "ratio_best_peer": round(min(medians.values()) / ours_us, 3) if medians else None,
           "ratio_limit": round(limit / ours_us, 3)}
    best = min(medians, key=medians.get) if medians else "none"
    print(f"{row['suite']:6} {row['case']:32} {threads} {ours_us:11.1f} {limit:11.1f} {row['ratio_limit']:7.2f} "
          f"{medians.get(best, 0):11.1f} {row['ratio_best_peer'] or 0:7.2f}  {best}", flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--luminal", default="build/release/luminal")
    parser.add_argument("--python", default="build/peers/bin/python")
    parser.add_argument("--out", default="build/bench.json")
    parser.add_argument("--only", default="")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--ms", type=float, default=40, help="length of a sample")
    parser.add_argument("--mode", default="optimal")
    options = parser.parse_args()
    if not os.path.exists(options.python):
        print(f"bench: no peers at {options.python}; `make bench-peers` sets them up", file=sys.stderr)
        options.python = ""
    rows = []
    print(f"{'suite':6} {'case':32} T {'ours us':>11} {'limit us':>11} {'limit/us':>7} {'peer us':>11} {'peer/us':>7}  best peer")
    for threads in map(int, options.threads.split(",")):
        ours, peers = start_systems(options, threads)
        limits = ours.ask({"limits": True})
        for case in CASES:
            if options.only in case["suite"] + " " + case["case"]:
                row = measure(case, ours, peers, limits, options, threads)
                rows += [row] if row else []
        for system in [ours, *peers]:
            system.close()
    os.makedirs(os.path.dirname(os.path.abspath(options.out)), exist_ok=True)
    with open(options.out + ".part", "w") as file:
        json.dump(rows, file, indent=1)
    os.replace(options.out + ".part", options.out)
    print(f"wrote {options.out}")


main()
