#!/usr/bin/env python3
"""Ratios of egglog's time to ours, program by program.

  pip install egglog        (in a virtual environment)
  python3 bench/egraph/compare.py build/release/bench_egraph [--only math] [--skip math_12] [--json out.json]
  python3 bench/egraph/compare.py build/release/bench_egraph --rows build/release/luminal [--only ac]
  python3 bench/egraph/compare.py build/release/bench_egraph --threads 2 [--only math]

Both engines run the same texts, one after the other, each in a process of its own, on one thread; the time is
the run command's, CPU seconds (so that other processes disturb it little), best of the repeats, median over the
rounds, which alternate between the two; row counts must agree. Memory is the peak of the process in its first run,
less what it held before loading.

With --threads, ours runs with one thread and with that many in turn, wall time, and egglog not at all. Beside the
gain stands how long a value takes from one thread to another, which tells whether the processors share a cache.

With --rows, both print the rows of each function after each iteration (at most 40), and any difference is shown."""
import argparse, json, math, os, pathlib, re, statistics, subprocess, sys, tempfile, time

FOLDER = pathlib.Path(tempfile.gettempdir()) / "luminal-bench-egraph"


def peak_kib():
    """Most memory the process ever held (not getrusage's figure, which starts with the parent's)."""
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM:"))


def commands(text):
    """The top-level commands of a text, some at a time: egglog keeps the text it parsed with each of its spans."""
    depth, begin = 0, 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0 and c == "\n" and i - begin > 2000:
            yield text[begin:i]
            begin = i
    yield text[begin:]


def peer(folder, seconds):
    """Runs in a process of its own: egglog on one program."""
    import egglog.bindings as bindings
    setup, run = (folder / "setup.egg").read_text(), (folder / "run.egg").read_text()
    base, peak = peak_kib(), 0
    times, rows = [], 0
    while sum(times) < seconds:
        graph = bindings.EGraph(fact_directory=str(folder))
        for part in commands(setup): graph.run_program(*graph.parse_program(part))
        parsed = graph.parse_program(run)
        begin = time.process_time()
        graph.run_program(*parsed)
        times.append(time.process_time() - begin)
        if not peak: peak = peak_kib() - base
        output = graph.run_program(*graph.parse_program("(print-size)"))[0]
        sizes = getattr(output, "sizes", None) or getattr(output, "functions", None)
        rows = sum(n for _, n in sizes)
    print(json.dumps({"s": min(times), "rows": rows, "kib": peak}))


def ours(program, name, seconds, threads="1"):
    command = [program, f"--benchmark_filter=^{name}(/|$)", "--benchmark_format=json", f"--benchmark_min_time={seconds}"]
    text = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "LUMINAL_THREADS": threads}).stdout
    result = json.loads(text)["benchmarks"][0]
    return {"s": result["run_cpu_ms"] / 1e3, "wall_s": result["real_time"] / 1e3, "rows": int(result["rows"]),
            "kib": result["peak_kib"], "handover_ns": result.get("handover_ns", 0)}


def compare_threads(program, name, a):
    pairs = []
    for _ in range(a.rounds):
        one, many = (ours(program, name, a.seconds, str(threads)) for threads in (1, a.threads))
        if one["rows"] != many["rows"]: sys.exit(f"{name}: {one['rows']} rows with one thread, {many['rows']} with {a.threads}")
        pairs.append((one["wall_s"] * 1e3, many["wall_s"] * 1e3, many["handover_ns"]))
    one, many = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
    print(f"{name:22} {one:10.1f} ms {many:10.1f} ms {one / many:6.2f}x   each round, at nanoseconds: " +
          ", ".join(f"{x / y:.2f} at {ns:.0f}" for x, y, ns in pairs), flush=True)


def step_by_step(run):
    """The program's run command in single iterations, the sizes printed after each."""
    count = re.fullmatch(r"\(run (\d+)\)", run)
    if count: return "(run 1) (print-size)\n" * int(count[1])
    before, repeated = re.fullmatch(r"(.*)\(run-schedule \((?:saturate|repeat \d+) (.*)\)\)", run, re.S).groups()
    return before + f"(run-schedule {repeated}) (print-size)\n" * 40


def rows_of(command, folder):
    text = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder,
                          env={**os.environ, "RAYON_NUM_THREADS": "1"}).stdout
    return [dict(re.findall(r"\(([^\s()]+) (\d+)\)", block)) for block in re.split(r"(?=\(\()", text)[1:]]


def compare_rows(name, luminal):
    folder = FOLDER / name
    program = folder / "rows.egg"
    program.write_text((folder / "setup.egg").read_text() + "\n" + step_by_step((folder / "run.egg").read_text()))
    mine = rows_of([luminal, "egg", "-F", str(folder), str(program)], folder)
    theirs = rows_of([sys.executable, os.path.abspath(__file__), "-", "--rows-peer", str(program)], folder)
    wrong = [i for i, (a, b) in enumerate(zip(mine, theirs)) if a != b]
    if len(mine) != len(theirs) or wrong:
        print(f"{name}: {len(mine)} and {len(theirs)} iterations; first that differs: {wrong[:1]}")
        for i in wrong[:1]: print({f: (n, theirs[i].get(f)) for f, n in mine[i].items() if theirs[i].get(f) != n})
    else:
        print(f"{name}: {len(mine)} iterations, rows of {len(mine[-1])} functions agree in each, "
              f"{sum(map(int, mine[-1].values()))} in the end", flush=True)


def rows_peer(program):
    """Runs in a process of its own: egglog on one program, all its output."""
    import egglog.bindings as bindings
    graph = bindings.EGraph(fact_directory=str(pathlib.Path(program).parent))
    for part in commands(pathlib.Path(program).read_text()):
        for output in graph.run_program(*graph.parse_program(part)): print(output)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--only", default="")
    parser.add_argument("--skip", default="")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", default="")
    parser.add_argument("--threads", type=int, default=0, help="compare that many threads with one instead")
    parser.add_argument("--rows", default="", metavar="LUMINAL", help="compare rows after each iteration instead")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    parser.add_argument("--rows-peer", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.peer: return peer(pathlib.Path(a.peer), a.seconds)
    if a.rows_peer: return rows_peer(a.rows_peer)
    listed = subprocess.run([a.program, "--benchmark_list_tests"], capture_output=True, text=True, check=True).stdout
    table, ratios = [], []
    for name in (line.split("/")[0] for line in listed.split()):
        if a.only not in name or (a.skip and a.skip in name): continue
        if a.rows:
            compare_rows(name, os.path.abspath(a.rows))
            continue
        if a.threads:
            compare_threads(a.program, name, a)
            continue
        mine, theirs = [], []
        for _ in range(a.rounds):
            mine.append(ours(a.program, name, a.seconds))
            theirs.append(json.loads(subprocess.run(
                [sys.executable, __file__, "-", "--peer", str(FOLDER / name), "--seconds", str(a.seconds)],
                capture_output=True, text=True, check=True, env={**os.environ, "RAYON_NUM_THREADS": "1"}).stdout))
        mine, theirs = ({key: statistics.median(one[key] for one in rounds) for key in rounds[0]} for rounds in (mine, theirs))
        row = {"name": name, "ours_ms": mine["s"] * 1e3, "egglog_ms": theirs["s"] * 1e3, "ratio": theirs["s"] / mine["s"],
               "rows": mine["rows"], "egglog_rows": theirs["rows"],
               "bytes_per_row": mine["kib"] * 1024 / mine["rows"], "egglog_bytes_per_row": theirs["kib"] * 1024 / theirs["rows"]}
        table.append(row)
        ratios.append(row["ratio"])
        same = "" if row["rows"] == row["egglog_rows"] else f"  ROWS DIFFER: egglog {row['egglog_rows']}"
        print(f"{name:22} {row['ours_ms']:10.2f} ms {row['egglog_ms']:10.2f} ms {row['ratio']:6.2f}x {row['rows']:10} rows"
              f" {row['bytes_per_row']:7.0f} / {row['egglog_bytes_per_row']:.0f} B a row{same}", flush=True)
    if ratios: print(f"geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}x, least {min(ratios):.2f}x")
    if a.json: pathlib.Path(a.json).write_text(json.dumps(table, indent=1))


main()
