"""What every peer's process does: it answers requests from standard input, one JSON object a line, a sample at a time.
A peer's file gives `build(case)`: a function that runs the case once, or None if the peer has no such thing."""
import json
import sys
import time

WARM = 3


def serve(build):
    key, run = None, None
    for line in sys.stdin:
        case = json.loads(line)
        if key != (case["suite"], case["case"]):
            key, run = (case["suite"], case["case"]), None  # the case before frees its memory first
            try:
                run = build(case)
                for _ in range(WARM if run else 0):
                    run()
            except Exception as error:  # a peer that cannot do a case is left out of its row, and that is said
                run = None
                print(f"bench: {sys.argv[0]} {key[1]}: {error!r:.300}", file=sys.stderr)
        if not run:
            print(json.dumps({"skip": True}), flush=True)
            continue
        start = time.perf_counter()
        run()
        runs = max(1, int(case["ms"] * 1e-3 / max(time.perf_counter() - start, 1e-7)))
        start = time.perf_counter()
        for _ in range(runs):
            run()
        print(json.dumps({"us": (time.perf_counter() - start) / runs * 1e6}), flush=True)
