#include <algorithm>
#include <new>

#include "base/fail.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/page_pool.h"
#include "luminal/tensor_data.h"

// Memory of tensors: whole cache lines, huge pages where a tensor is large.
namespace luminal {
namespace detail {
namespace {

std::align_val_t alignment_of(size_t bytes) {
  return std::align_val_t{bytes < kHugePageBytes ? kLineBytes : kHugePageBytes};
}

}  // namespace

void* allocate_lines(size_t bytes) {
  if (void* pooled = take_pooled(bytes)) return pooled;
  check_memory(bytes);
  void* memory = ::operator new(bytes, alignment_of(bytes), std::nothrow);
  if (memory == nullptr)
    fail(
        "[memory] {} are needed at once, which the system does not provide; use smaller sizes or free memory",
        readable_bytes(bytes));
  advise_huge_pages(memory, bytes);
  return memory;
}

void free_lines(void* memory, size_t bytes) noexcept {
  if (!give_back_pooled(memory, bytes)) ::operator delete(memory, alignment_of(bytes));
}

int64_t count_elements(const std::vector<int64_t>& sizes) {
  if (std::ranges::any_of(sizes, [](int64_t size) { return size < 0; }))
    fail<ShapeError>("[data] a tensor cannot have the sizes [{}]; give 0 or more", fmt::join(sizes, ", "));
  if (std::ranges::find(sizes, 0) != sizes.end()) return 0;
  int64_t count = 1;
  for (const int64_t size : sizes)
    if (__builtin_mul_overflow(count, size, &count))
      fail<ShapeError>("[data] a tensor of [{}] has more elements than 64 bits count; use smaller sizes",
                       fmt::join(sizes, ", "));
  return count;
}

void refuse_values(size_t given, Dtype dtype, const std::vector<int64_t>& sizes) {
  fail<ShapeError>("[data] {} values do not fill {}[{}], which holds {}; give as many, or their own sizes",
                   given, name(dtype), fmt::join(sizes, ", "), count_elements(sizes));
}

void refuse_type(Dtype dtype, Dtype asked_for) {
  fail<DtypeError>("[data] the elements are {}, but were requested as {}; request their own type",
                   name(dtype), name(asked_for));
}

}  // namespace detail

void TensorData::check_bytes(std::string_view call) const {
  const int64_t due = size_bytes(dtype, element_count());
  if (static_cast<int64_t>(bytes.size()) != due)
    fail<ShapeError>(
        "[{}] data of {}[{}] hold {} bytes where their sizes make {}; make them with TensorData(dtype, "
        "sizes) or TensorData::of",
        call, name(dtype), fmt::join(dims, ", "), bytes.size(), due);
}

TensorData::TensorData(Dtype type, std::vector<int64_t> sizes) : dtype(type), dims(std::move(sizes)) {
  const int64_t count = element_count();
  int64_t limit = 0;  // every block takes at most as many bytes as it has elements times 8
  if (__builtin_mul_overflow(count, int64_t{8}, &limit))
    fail<ShapeError>("[data] {}[{}] takes more bytes than 64 bits count; use smaller sizes", name(dtype),
                     fmt::join(dims, ", "));
  try {
    bytes.resize(static_cast<size_t>(size_bytes(type, count)));
  } catch (const ShapeError&) {
    throw;
  } catch (const Error& error) {
    fail("[data] out of memory for {}[{}]: {}", name(dtype), fmt::join(dims, ", "), error.what());
  }
}

}  // namespace luminal
