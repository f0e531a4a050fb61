#include "backends/kernel_file.h"

#include "base/fail.h"
#include "base/hash.h"
#include "codegen/emit/llvm.h"

namespace luminal::backends {
namespace {

// Layout, little-endian: magic, version, XXH3 of all that follows; then each part with its length in front:
// texts as bytes, lists as their count and parts. Formulas are Expression::to_text.
constexpr uint32_t kMagic = 0x4b4d554c;  // "LUMK"
constexpr uint32_t kVersion = 6;         // also raised when LaunchArguments changes

class Writer {
 public:
  void number(uint64_t value, size_t size) {
    for (size_t i = 0; i < size; ++i) bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  void blob(std::span<const std::byte> part) {
    number(part.size(), 8);
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  void text(std::string_view part) { blob(std::as_bytes(std::span(part))); }
  std::vector<std::byte> bytes;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}
  uint64_t number(size_t size) {
    need(size);
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i) value |= static_cast<uint64_t>(rest_[i]) << (8 * i);
    rest_ = rest_.subspan(size);
    return value;
  }
  std::span<const std::byte> blob() {
    const uint64_t size = number(8);
    need(size);
    const auto part = rest_.first(size);
    rest_ = rest_.subspan(size);
    return part;
  }
  std::string text() {
    const auto part = blob();
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }
  [[nodiscard]] std::span<const std::byte> rest() const { return rest_; }

 private:
  void need(uint64_t size) const {
    if (size > rest_.size())
      fail<FormatError>(
          "[kernel] the file ends early: expected {} more bytes, found {}; delete it, and it will be "
          "compiled again",
          size, rest_.size());
  }
  std::span<const std::byte> rest_;
};

}  // namespace

KernelFile kernel_file_of(const codegen::Program& program, std::string host) {
  KernelFile file{.host = std::move(host), .dims = program.dims};
  for (size_t s = 0; s < program.stages.size(); ++s) {
    file.symbols.push_back(codegen::stage_symbol(program, s));
    file.tasks.push_back(program.stages[s].tasks);
    file.threads.push_back(program.stages[s].threads);
  }
  file.shared_bytes = workspace_of(program, codegen::Space::Shared).bytes;
  file.local_bytes = workspace_of(program, codegen::Space::Local).bytes;
  file.prepared_bytes = workspace_of(program, codegen::Space::Prepared).bytes;
  file.preparing_stages = static_cast<int>(preparing_stages(program));
  codegen::Preparation preparation = preparation_of(program);
  file.preparation = preparation.hash;
  file.prepared_slots = std::move(preparation.slots);
  file.spent_slots = std::move(preparation.spent);
  return file;
}

std::vector<std::byte> to_bytes(const KernelFile& file) {
  Writer body;
  body.text(file.host);
  body.number(file.dims.size(), 4);
  for (const std::string& d : file.dims) body.text(d);
  body.number(file.tasks.size(), 4);
  for (size_t s = 0; s < file.tasks.size(); ++s) {
    body.text(file.symbols[s]);
    body.text(file.tasks[s].to_text());
    body.number(static_cast<uint64_t>(file.threads[s]), 4);
  }
  body.text(file.shared_bytes.to_text());
  body.text(file.local_bytes.to_text());
  body.text(file.prepared_bytes.to_text());
  body.number(static_cast<uint64_t>(file.preparing_stages), 4);
  body.number(file.preparation, 8);
  for (const auto* slots : {&file.prepared_slots, &file.spent_slots}) {
    body.number(slots->size(), 4);
    for (const int slot : *slots) body.number(static_cast<uint64_t>(slot), 4);
  }
  body.blob(file.object);
  Writer whole;
  whole.number(kMagic, 4);
  whole.number(kVersion, 4);
  whole.number(hash_bytes(body.bytes.data(), body.bytes.size()), 8);
  whole.bytes.insert(whole.bytes.end(), body.bytes.begin(), body.bytes.end());
  return whole.bytes;
}

KernelFile parse_kernel_file(std::span<const std::byte> bytes) {
  Reader r(bytes);
  const uint64_t magic = r.number(4), version = r.number(4), hash = r.number(8);
  if (magic != kMagic) fail<FormatError>("[kernel] these {} bytes are not a compiled kernel", bytes.size());
  if (version != kVersion)
    fail<FormatError>(
        "[kernel] compiled as version {}, but this program reads {}; delete it, and it will be compiled "
        "again",
        version, kVersion);
  if (hash_bytes(r.rest().data(), r.rest().size()) != hash)
    fail<FormatError>("[kernel] the {} bytes are damaged; delete them, and they will be compiled again",
                      bytes.size());
  KernelFile file{.host = r.text()};
  for (uint64_t n = r.number(4); n > 0; --n) file.dims.push_back(r.text());
  for (uint64_t n = r.number(4); n > 0; --n) {
    file.symbols.push_back(r.text());
    file.tasks.push_back(Expression::parse(r.text()));
    file.threads.push_back(static_cast<int>(r.number(4)));
    if (file.threads.back() < 1 || file.threads.back() > codegen::kMostBlockThreads)
      fail<FormatError>("[kernel] {} threads in a block; delete the file, and it will be compiled again",
                        file.threads.back());
  }
  file.shared_bytes = Expression::parse(r.text());
  file.local_bytes = Expression::parse(r.text());
  file.prepared_bytes = Expression::parse(r.text());
  file.preparing_stages = static_cast<int>(r.number(4));
  if (file.preparing_stages < 0 || static_cast<size_t>(file.preparing_stages) > file.tasks.size())
    fail<FormatError>("[kernel] {} of {} stages prepare; delete the file, and it will be compiled again",
                      file.preparing_stages, file.tasks.size());
  file.preparation = r.number(8);
  for (auto* slots : {&file.prepared_slots, &file.spent_slots})
    for (uint64_t n = r.number(4); n > 0; --n) slots->push_back(static_cast<int>(r.number(4)));
  const auto object = r.blob();
  file.object.assign(object.begin(), object.end());
  return file;
}

}  // namespace luminal::backends
