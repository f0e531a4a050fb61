#pragma once
#include <algorithm>
#include <array>
#include <string_view>

#include "search/verification/verify.h"

namespace luminal::search {

/// Text on its way out of a contained process, cut where it is too long.
template <size_t size>
class SharedText {
 public:
  void set(std::string_view text) { text.copy(text_.data(), size - 1); }
  [[nodiscard]] const char* get() const { return text_.data(); }

 private:
  std::array<char, size> text_;  // zeros at first: shared memory
};

/// A fault on its way out of a contained process.
class FaultRecord {
 public:
  void set(const Fault& fault) {
    message_.set(fault.message);
    data_.set(fault.data);
    position_ = fault.position, got_ = fault.got, expected_ = fault.expected, bound_ = fault.bound;
    is_there_ = true;  // last: the process may be ended meanwhile
  }
  [[nodiscard]] std::optional<Fault> get() const {
    if (!is_there_) return std::nullopt;
    return Fault{.message = message_.get(),
                 .data = data_.get(),
                 .position = position_,
                 .got = got_,
                 .expected = expected_,
                 .bound = bound_};
  }

 private:
  bool is_there_;
  SharedText<2000> message_;
  SharedText<40> data_;
  int64_t position_;
  double got_, expected_, bound_;
};

}  // namespace luminal::search
