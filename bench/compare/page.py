"""Rooflines as a page: how many operations a second each case reached, over its operations per byte, beneath what the
machine gave in the same run. Without scripts, to be looked at anywhere."""
import html
import math

WIDTH, HEIGHT, MARGIN = 860, 480, 56
COLOURS = ["#0b6e99", "#c4432b", "#448361", "#9065b0", "#d9730d", "#64748b", "#ad1a72", "#5c7a00", "#a07b00"]


def scale(low, high, size):
    a, b = math.log10(low), math.log10(high)
    return lambda x: MARGIN + (math.log10(max(x, low)) - a) / (b - a) * (size - 2 * MARGIN)


def chart(threads, rows):
    points = [(row["flops"] / row["bytes"], row["flops"] / row["ours_us"], row) for row in rows
              if row["bytes"] and row["flops"]]
    if not points:
        return ""
    peak = max(row["flops_per_us"] for _, _, row in points)
    memory = max(row["memory_bytes_per_us"] for _, _, row in points)
    left, right = min(0.05, *(p[0] for p in points)), max(1000, *(p[0] for p in points))
    low, high = min(p[1] for p in points) / 2, peak * 2
    x, flipped = scale(left, right, WIDTH), scale(low, high, HEIGHT)
    y = lambda value: HEIGHT - flipped(value)  # noqa: E731
    ridge = peak / memory
    roof = f"M{x(left):.1f},{y(left * memory):.1f} L{x(ridge):.1f},{y(peak):.1f} L{x(right):.1f},{y(peak):.1f}"
    suites = list(dict.fromkeys(row["suite"] for _, _, row in points))
    marks = []
    for intensity, speed, row in points:
        peer = f", best peer {min(row['peers'].values()):.1f} us" if row["peers"] else ""
        title = f"{row['suite']} {row['case']}: {row['ours_us']:.1f} us, {row['ratio_limit']:.0%} of the limit{peer}"
        marks.append(f'<circle cx="{x(intensity):.1f}" cy="{y(speed):.1f}" r="4" '
                     f'fill="{COLOURS[suites.index(row["suite"]) % len(COLOURS)]}" fill-opacity="0.75">'
                     f"<title>{html.escape(title)}</title></circle>")
    ticks = []
    for power in range(math.ceil(math.log10(left)), math.floor(math.log10(right)) + 1):
        ticks.append(f'<text x="{x(10 ** power):.1f}" y="{HEIGHT - MARGIN + 18}" text-anchor="middle">{10.0 ** power:g}</text>')
    for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1):
        ticks.append(f'<text x="{MARGIN - 6}" y="{y(10 ** power) + 4:.1f}" text-anchor="end">{10.0 ** power / 1000:g}</text>')
    legend = "".join(f'<span style="color:{COLOURS[i % len(COLOURS)]}">&#9679; {html.escape(suite)}</span> '
                     for i, suite in enumerate(suites))
    return (f"<h2>{threads} threads: {peak / 1000:.0f} GFLOP/s, {memory / 1000:.1f} GB/s</h2><p>{legend}</p>"
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img" aria-label="roofline">'
            f'<path d="{roof}" fill="none" stroke="currentColor" stroke-width="2"/>{"".join(marks)}{"".join(ticks)}'
            f'<text x="{WIDTH / 2}" y="{HEIGHT - 12}" text-anchor="middle">operations per byte that has to move</text>'
            f'<text x="14" y="20">GFLOP/s</text></svg>')


def table(rows):
    lines = []
    for row in rows:
        best = min(row["peers"], key=row["peers"].get) if row["peers"] else ""
        cells = [row["suite"], row["case"], row["threads"], f"{row['ours_us']:.1f}", f"{row['ratio_limit']:.2f}", best,
                 f"{row['peers'][best]:.1f}" if best else "", f"{row['ratio_best_peer']:.2f}" if best else ""]
        lines.append("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in cells) + "</tr>")
    head = "".join(f"<th>{name}</th>" for name in ("suite", "case", "threads", "ours, us", "of the limit", "best peer",
                                                   "us", "ratio"))
    return f"<table><tr>{head}</tr>{''.join(lines)}</table>"


def of(rows):
    charts = "".join(chart(threads, [row for row in rows if row["threads"] == threads])
                     for threads in sorted({row["threads"] for row in rows}))
    style = ("body{font:14px/1.5 system-ui,sans-serif;max-width:900px;margin:2em auto;padding:0 1em;color:#1f2328;"
             "background:#fff}svg text{font-size:12px;fill:currentColor}td,th{padding:2px 10px 2px 0;text-align:left}"
             "td:nth-child(n+4){font-variant-numeric:tabular-nums}"
             "@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}}")
    return (f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Luminal: rooflines</title><style>{style}</style>'
            f"<h1>Beneath the roofline</h1><p>Each point is a case; hold the pointer over it for its figures.</p>"
            f"{charts}<h2>All figures</h2>{table(rows)}</html>")
