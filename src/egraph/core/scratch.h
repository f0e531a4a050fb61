#pragma once
#include <cstdint>
#include <memory>
#include <vector>

namespace luminal::egraph {

/// A stack of short-lived arrays: joins and actions take their batch columns from it, nested ones above the
/// outer ones. Memory is kept, so that tiny runs allocate nothing.
class Scratch {
 public:
  [[nodiscard]] uint32_t* take(size_t count) {
    count = (count + 15) & ~size_t{15};
    while (chunk_ < chunks_.size() && chunks_[chunk_].size - used_ < count) {
      chunk_++;
      used_ = 0;
    }
    if (chunk_ == chunks_.size()) {
      const size_t size = count > kChunk ? count : kChunk;
      chunks_.push_back({std::unique_ptr<uint32_t[]>(new uint32_t[size]), size});
      used_ = 0;
    }
    uint32_t* data = chunks_[chunk_].data.get() + used_;
    used_ += count;
    return data;
  }

  /// Gives back everything taken since it was made.
  class Mark {
   public:
    explicit Mark(Scratch& scratch) : scratch_(scratch), chunk_(scratch.chunk_), used_(scratch.used_) {}
    ~Mark() {
      scratch_.chunk_ = chunk_;
      scratch_.used_ = used_;
    }
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;

   private:
    Scratch& scratch_;
    size_t chunk_, used_;
  };

 private:
  static constexpr size_t kChunk = size_t{1} << 18;  // pages that nobody touches cost nothing
  struct Chunk {
    std::unique_ptr<uint32_t[]> data;
    size_t size;
  };
  std::vector<Chunk> chunks_;
  size_t chunk_ = 0, used_ = 0;
};

}  // namespace luminal::egraph
