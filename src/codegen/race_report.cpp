#include "codegen/race_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace luminal::codegen {

std::string_view name(Finding::Kind kind) {
  constexpr std::string_view kNames[] = {"out of bounds", "unwritten",     "thread race", "task race",
                                         "written twice", "never written", "overwritten", "divergence"};
  static_assert(std::size(kNames) == static_cast<size_t>(Finding::Kind::Divergence) + 1);
  return kNames[static_cast<size_t>(kind)];
}

namespace {

constexpr int64_t kWordBytes = 4, kSegmentBytes = 128;
constexpr size_t kBanks = 32;

/// Numbers of the pieces of `size` bytes that a warp touches, each once, ascending.
std::vector<int64_t> pieces_of(std::span<const Touch> touches, int64_t size) {
  std::vector<int64_t> pieces;
  for (const Touch& t : touches)
    for (int64_t piece = t.byte / size; piece <= (t.byte + t.bytes - 1) / size; ++piece)
      if (pieces.empty() || pieces.back() != piece) pieces.push_back(piece);
  std::ranges::sort(pieces);
  pieces.erase(std::ranges::unique(pieces).begin(), pieces.end());
  return pieces;
}

/// Bytes that a warp touches, each once.
int64_t bytes_of(std::span<const Touch> touches) {
  std::vector<Touch> sorted(touches.begin(), touches.end());
  std::ranges::sort(sorted, {}, &Touch::byte);
  int64_t bytes = 0, end = 0;
  for (const Touch& t : sorted) {
    bytes += std::max<int64_t>(0, t.byte + t.bytes - std::max(end, t.byte));
    end = std::max(end, t.byte + t.bytes);
  }
  return bytes;
}

int64_t quotient_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// A bank gives one word at a time, to all that ask for it.
void add_block_access(AccessFigures& figures, std::span<const Touch> warp) {
  const std::vector<int64_t> words = pieces_of(warp, kWordBytes);
  std::array<int64_t, kBanks> passes{};
  for (const int64_t word : words) ++passes[static_cast<size_t>(word) % kBanks];
  ++figures.block_accesses;
  figures.bank_conflicts += std::ranges::max(passes) - quotient_up(std::ssize(words), kBanks);
}

void add_global_access(AccessFigures& figures, std::span<const Touch> warp) {
  ++figures.global_accesses;
  figures.segments += std::ssize(pieces_of(warp, kSegmentBytes));
  figures.least_segments += quotient_up(bytes_of(warp), kSegmentBytes);
}

}  // namespace

void add_accesses(AccessFigures& figures, std::span<const Touch> touches, bool is_block_memory) {
  while (!touches.empty()) {
    const int warp = touches.front().thread / AccessFigures::kWarp;
    const auto end = std::ranges::find_if(
        touches, [&](const Touch& t) { return t.thread / AccessFigures::kWarp != warp; });
    const auto own = touches.first(static_cast<size_t>(end - touches.begin()));
    is_block_memory ? add_block_access(figures, own) : add_global_access(figures, own);
    touches = touches.subspan(own.size());
  }
}

std::string RaceReport::to_string() const {
  std::string text;
  for (const Finding& f : findings)
    text += fmt::format("{}: stage {}, task {}, thread {}, phase {}: {}\n", name(f.kind), f.stage, f.task,
                        f.thread, f.phase, f.message);
  if (found > std::ssize(findings))
    text += fmt::format("and {} more of these\n", found - std::ssize(findings));
  return text;
}

}  // namespace luminal::codegen
