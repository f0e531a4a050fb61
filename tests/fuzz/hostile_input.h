#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <functional>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "luminal/error.h"
#include "support/effort.h"
#include "support/files.h"

/// Damaged and invented inputs for whatever reads text and files from outside. Each may be read or refused
/// with an `Error`; another exception, a crash or a hang fails the test.
namespace luminal::fuzz {

/// A reader of text or files from outside. `parse` gets an input as text, and as a file that holds it.
struct Target {
  std::string name;
  std::function<std::vector<std::string>()> seeds;  ///< valid inputs
  std::function<void(const std::string& input, const std::filesystem::path& file)> parse;
  int64_t sample = 300;  ///< how many inputs `make test` tries; `make test-full` goes on for a minute
  std::function<std::vector<std::string>()> flawed = {};  ///< further texts to change, which may be refused
  bool numbers_only = false;  ///< of most inputs numbers alone are changed, so that more of them are read
};

inline void PrintTo(const Target& target, std::ostream* out) { *out << target.name; }

/// Changes a text in one to four places, by bits, bytes, numbers, bracketed groups and pieces of other seeds.
class Mutator {
 public:
  Mutator(const std::vector<std::string>& seeds, bool numbers_only, std::mt19937_64& random)
      : seeds_(seeds), numbers_only_(numbers_only), random_(random) {}

  std::string operator()() {
    text_ = any_seed();
    // What is changed in one place only gets furthest.
    for (uint64_t edits = below(2) == 0 ? 1 : 1 + below(4); edits > 0; --edits) {
      if (text_.empty()) text_ = "x";
      if (numbers_only_ && below(8) != 0)
        below(2) == 0 ? digit() : number();
      else
        edit();
    }
    return std::move(text_);
  }

 private:
  uint64_t below(uint64_t end) { return random_() % end; }
  const std::string& any_seed() { return seeds_[below(seeds_.size())]; }

  void edit() {
    switch (below(9)) {
      case 0:
      case 1:
        return bytes();
      case 2:
        return digit();
      case 3:
      case 4:
        return number();
      case 5:
        return word();
      case 6:
      case 7:
        return group();
      default:
        return below(3) == 0 ? cut() : splice();
    }
  }

  void bytes() {
    constexpr std::string_view kSigns = "0123456789[]{}(),:;\"'+-*/%.<>&|@?_ \n\0\xff";
    const size_t at = below(text_.size()), length = 1 + below(std::min<size_t>(16, text_.size() - at));
    switch (below(6)) {
      case 0:
        text_[at] = static_cast<char>(random_());
        break;
      case 1:
        text_[at] = static_cast<char>(text_[at] ^ (1 << below(8)));
        break;
      case 2:
        text_.erase(at, length);
        break;
      case 3:
        text_.insert(at, 1, kSigns[below(kSigns.size())]);
        break;
      case 4:
        text_.insert(below(text_.size()), text_.substr(at, length));
        break;
      default:
        for (size_t i = at; i < at + length; ++i) text_[i] = below(2) == 0 ? '\xff' : '9';
    }
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  /// One digit is another one: what still reads gets further.
  void digit() {
    const size_t at = text_.find_first_of("0123456789", below(text_.size()));
    if (at != std::string::npos) text_[at] = static_cast<char>('0' + below(10));
  }

  /// A whole number in decimal digits is one that programs stumble over.
  void number() {
    constexpr std::array<std::string_view, 20> kNumbers{"0",
                                                        "-1",
                                                        "1",
                                                        "2",
                                                        "-0",
                                                        "64",
                                                        "255",
                                                        "65536",
                                                        "2147483647",
                                                        "2147483648",
                                                        "-2147483648",
                                                        "4294967296",
                                                        "1099511627776",
                                                        "9223372036854775807",
                                                        "9223372036854775808",
                                                        "-9223372036854775808",
                                                        "18446744073709551615",
                                                        "1e308",
                                                        "1e-400",
                                                        "0.5"};
    const size_t begin = text_.find_first_of("0123456789", below(text_.size()));
    if (begin == std::string::npos) return;
    size_t end = begin;
    while (end < text_.size() && is_digit(text_[end])) ++end;
    std::string next(kNumbers[below(kNumbers.size())]);
    if (below(4) == 0) next = text_.substr(begin, end - begin) + ", " + next;
    text_.replace(begin, end - begin, next);
  }

  /// A little-endian number of four or eight bytes is zero, small, huge or all ones.
  void word() {
    constexpr std::array<uint64_t, 8> kWords{
        0, 1, 0x7f, 0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff, 0xffffffffffffffff};
    const size_t size = below(2) == 0 ? 4 : 8;
    if (text_.size() < size) return;
    const uint64_t value = kWords[below(kWords.size())];
    std::memcpy(&text_[below(text_.size() - size + 1)], &value, size);
  }

  struct Piece {
    size_t begin = 0, size = 0;
  };
  /// From an opening bracket or quote, behind a random place, to the one that closes it.
  Piece bracketed(const std::string& text) {
    if (text.empty()) return {};
    const size_t begin = text.find_first_of("([{\"", below(text.size()));
    if (begin == std::string::npos) return {};
    if (text[begin] == '"') {
      const size_t end = text.find('"', begin + 1);
      return {begin, end == std::string::npos ? 0 : end + 1 - begin};
    }
    int open = 0;
    for (size_t end = begin; end < text.size(); ++end) {
      open += std::string_view("([{").find(text[end]) != std::string_view::npos   ? 1
              : std::string_view(")]}").find(text[end]) != std::string_view::npos ? -1
                                                                                  : 0;
      if (open == 0) return {begin, end + 1 - begin};
    }
    return {};
  }
  /// A bracketed group is left out, stands twice, stands within itself, or is another one.
  void group() {
    const Piece here = bracketed(text_);
    if (here.size == 0) return bytes();
    const std::string own = text_.substr(here.begin, here.size);
    switch (below(4)) {
      case 0:
        text_.erase(here.begin, here.size);
        break;
      case 1:
        text_.insert(here.begin, own + (below(2) == 0 ? "," : " "));
        break;
      case 2:
        text_.insert(here.begin + 1, own);
        break;
      default: {
        const std::string& other = any_seed();
        const Piece there = bracketed(other);
        text_.replace(here.begin, here.size, other.substr(there.begin, there.size));
      }
    }
  }

  void cut() { text_.resize(below(text_.size())); }
  /// The end is that of another seed.
  void splice() {
    const std::string& other = any_seed();
    text_ = text_.substr(0, below(text_.size() + 1)) + other.substr(below(other.size() + 1));
  }

  const std::vector<std::string>& seeds_;
  bool numbers_only_;
  std::mt19937_64& random_;
  std::string text_;
};

/// Tries the target's seeds, which must be read, and then mutants.
inline void run(const Target& target) {
  using Clock = std::chrono::steady_clock;
  const test::TemporaryFolder folder;
  const uint64_t seed = effort::seed(2026);
  std::mt19937_64 random(seed);
  std::vector<std::string> seeds = target.seeds();
  ASSERT_FALSE(seeds.empty());
  for (const std::string& good : seeds) target.parse(good, folder.file("good", good));
  if (target.flawed)
    for (std::string& text : target.flawed()) seeds.push_back(std::move(text));
  // What ends the process stays there.
  std::cout << target.name << ": the input that is tried is " << (folder.path() / "input").string()
            << std::endl;
  Mutator next(seeds, target.numbers_only, random);
  int64_t tried = 0, refused = 0;
  double slowest_s = 0;
  const auto end = Clock::now() + std::chrono::minutes(1);
  for (; effort::full_effort() ? Clock::now() < end : tried < target.sample; ++tried) {
    const std::string input = next();
    const auto file = folder.file("input", input);
    const auto start = Clock::now();
    try {
      target.parse(input, file);
    } catch (const Error&) {
      ++refused;
    } catch (const std::exception& error) {
      FAIL() << "seed " << seed << ", case " << tried << ": " << error.what() << "\n" << input;
    }
    slowest_s = std::max(slowest_s, std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::cout << target.name << ": " << tried << " tried, " << refused << " refused, the slowest took "
            << static_cast<int64_t>(1e3 * slowest_s) << " ms\n";
  EXPECT_GT(refused, 0);
}

inline std::string test_name(const testing::TestParamInfo<Target>& test) {
  std::string name = test.param.name;
  std::ranges::replace_if(name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

}  // namespace luminal::fuzz
