#include "formats/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "base/fail.h"

namespace luminal {
namespace {

constexpr uint32_t kMember = 0x04034b50, kEntry = 0x02014b50, kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr size_t kEndBytes = 22, kEntryBytes = 46, kMemberBytes = 30, kLocatorBytes = 20, kEnd64Bytes = 56;
constexpr uint16_t kStored = 0, kDeflated = 8;
constexpr size_t kMostPerByte = 1032;  // of deflate, by zlib's documentation
constexpr uint64_t kMax32 = std::numeric_limits<uint32_t>::max();

/// Little-endian numbers, each read within bounds.
class Reader {
 public:
  Reader(std::string_view bytes, size_t at, const std::string& where)
      : bytes_(bytes), at_(at), where_(where) {}
  uint64_t number(size_t count) {
    const std::string_view part = text(count);
    uint64_t value = 0;
    for (size_t i = count; i-- > 0;) value = value << 8 | static_cast<unsigned char>(part[i]);
    return value;
  }
  uint16_t u16() { return static_cast<uint16_t>(number(2)); }
  uint32_t u32() { return static_cast<uint32_t>(number(4)); }
  std::string_view text(size_t count) {
    if (at_ > bytes_.size() || count > bytes_.size() - at_)
      fail<FormatError>("{}: the archive ends early; the file is truncated, fetch or make it again", where_);
    const std::string_view part = bytes_.substr(at_, count);
    at_ += count;
    return part;
  }
  void skip(size_t count) { (void)text(count); }
  [[nodiscard]] size_t at() const { return at_; }

 private:
  std::string_view bytes_;
  size_t at_;
  const std::string& where_;
};

struct Directory {
  uint64_t entries = 0, offset = 0;
};

Directory find_directory(std::string_view archive, const std::string& where) {
  if (archive.size() < kEndBytes)
    fail<FormatError>("{}: {} bytes are no zip archive; give an .npz file", where, archive.size());
  // The end record is the last thing but for a comment of at most 64 KiB.
  const size_t first = archive.size() - std::min<size_t>(archive.size(), kEndBytes + 0xffff);
  const size_t end = archive.rfind("PK\x05\x06", archive.size() - kEndBytes);
  if (end == std::string_view::npos || end < first)
    fail<FormatError>("{}: no zip archive ends here; the file is truncated or of another format", where);
  Reader reader(archive, end, where);
  if (reader.u32() != kEnd) fail<FormatError>("{}: the end record is damaged; make the file again", where);
  reader.skip(4);
  Directory directory;
  reader.skip(2);
  directory.entries = reader.u16();
  reader.skip(4);
  directory.offset = reader.u32();
  if (directory.entries != 0xffff && directory.offset != kMax32) return directory;
  if (end < kLocatorBytes) return directory;
  Reader locator(archive, end - kLocatorBytes, where);
  if (locator.u32() != kLocator64) return directory;
  locator.skip(4);
  Reader end64(archive, static_cast<size_t>(locator.number(8)), where);
  if (end64.u32() != kEnd64)
    fail<FormatError>("{}: the zip64 end record is damaged; make the file again", where);
  end64.skip(kEnd64Bytes - 4 - 24);
  directory.entries = end64.number(8);
  end64.skip(8);
  directory.offset = end64.number(8);
  return directory;
}

struct Entry {
  std::string name;
  uint16_t flags = 0, method = 0;
  uint32_t check_sum = 0;
  uint64_t packed = 0, size = 0, offset = 0;
};

/// Sizes and place of 64 bits stand in an extra field, those of them that did not fit in 32.
void read_zip64(std::string_view extra, Entry& entry, const std::string& where) {
  Reader reader(extra, 0, where);
  while (reader.at() + 4 <= extra.size()) {
    const uint16_t id = reader.u16(), length = reader.u16();
    const std::string_view content = reader.text(length);
    if (id != 1) continue;
    Reader wide(content, 0, where);
    for (uint64_t* value : {&entry.size, &entry.packed, &entry.offset})
      if (*value == kMax32) *value = wide.number(8);
  }
}

Entry read_entry(Reader& reader, const std::string& where) {
  if (reader.u32() != kEntry) fail<FormatError>("{}: its directory is damaged; make the file again", where);
  Entry entry;
  reader.skip(4);
  entry.flags = reader.u16();
  entry.method = reader.u16();
  reader.skip(4);
  entry.check_sum = reader.u32();
  entry.packed = reader.u32();
  entry.size = reader.u32();
  const uint16_t name = reader.u16(), extra = reader.u16(), comment = reader.u16();
  reader.skip(8);
  entry.offset = reader.u32();
  entry.name = std::string(reader.text(name));
  read_zip64(reader.text(extra), entry, where);
  reader.skip(comment);
  return entry;
}

std::string inflated(std::string_view packed, size_t size, const std::string& where,
                     const std::string& name) {
  std::string content(size, '\0');
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  size_t in = 0, out = 0;
  int status = Z_OK;
  constexpr size_t kStep = size_t{1} << 30;
  while (status == Z_OK) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + in));
    stream.avail_in = static_cast<uInt>(std::min(kStep, packed.size() - in));
    stream.next_out = reinterpret_cast<Bytef*>(content.data() + out);
    stream.avail_out = static_cast<uInt>(std::min(kStep, size - out));
    const uInt had_in = stream.avail_in, had_out = stream.avail_out;
    status = inflate(&stream, Z_NO_FLUSH);
    in += had_in - stream.avail_in;
    out += had_out - stream.avail_out;
    if (status == Z_OK && had_in == stream.avail_in && had_out == stream.avail_out) break;
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END || out != size)
    fail<FormatError>("{}: member '{}' is damaged; fetch or make the file again", where, name);
  return content;
}

std::string read_member(std::string_view archive, const Entry& entry, const std::string& where) {
  if ((entry.flags & 1) != 0)
    fail<FormatError>("{}: member '{}' is encrypted; unpack the archive first", where, entry.name);
  if (entry.method != kStored && entry.method != kDeflated)
    fail<FormatError>("{}: member '{}' is packed by method {}; pack it by deflate, or not at all", where,
                      entry.name, entry.method);
  Reader reader(archive, static_cast<size_t>(entry.offset), where);
  if (reader.u32() != kMember)
    fail<FormatError>("{}: member '{}' is not where the directory says; make the file again", where,
                      entry.name);
  reader.skip(kMemberBytes - 8);
  const uint16_t name = reader.u16(), extra = reader.u16();
  reader.skip(size_t{name} + extra);
  const std::string_view packed = reader.text(static_cast<size_t>(entry.packed));
  if (entry.method == kStored ? entry.size != entry.packed : entry.size / kMostPerByte > entry.packed)
    fail<FormatError>("{}: member '{}' cannot hold {} bytes in {}; the file is damaged", where, entry.name,
                      entry.size, entry.packed);
  std::string content = entry.method == kStored
                            ? std::string(packed)
                            : inflated(packed, static_cast<size_t>(entry.size), where, entry.name);
  const auto sum =
      static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()));
  if (sum != entry.check_sum)
    fail<FormatError>("{}: member '{}' has another check sum than noted; fetch or make the file again", where,
                      entry.name);
  return content;
}

// --- Writing

void put(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(i < 8 ? static_cast<char>(value >> (8 * i) & 0xff) : '\0');
}

std::string deflated_text(const std::string& content) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  std::string packed(deflateBound(&stream, static_cast<uLong>(content.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

/// What a member's own header and its entry in the directory have in common.
void put_common(std::string& out, const Entry& entry, size_t extra) {
  constexpr uint16_t kVersion = 20, kFirstDay = 0x21;  // 1980-01-01
  put(out, kVersion, 2);
  put(out, 0, 2);
  put(out, entry.method, 2);
  put(out, 0, 2);
  put(out, kFirstDay, 2);
  put(out, entry.check_sum, 4);
  put(out, entry.packed, 4);
  put(out, entry.size, 4);
  put(out, entry.name.size(), 2);
  put(out, extra, 2);
}

}  // namespace

std::map<std::string, std::string> unzip(std::string_view archive, const std::string& where,
                                         size_t limit_bytes) {
  const Directory directory = find_directory(archive, where);
  if (directory.entries > archive.size() / kEntryBytes)
    fail<FormatError>("{}: {} members do not fit in {} bytes; the file is damaged", where, directory.entries,
                      archive.size());
  Reader reader(archive, static_cast<size_t>(directory.offset), where);
  std::map<std::string, std::string> members;
  size_t total = 0;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    const Entry entry = read_entry(reader, where);
    if (entry.size > limit_bytes - total)
      fail<FormatError>(
          "{}: its members take more than the {} bytes allowed here; raise the limit if that is meant", where,
          limit_bytes);
    total += static_cast<size_t>(entry.size);
    if (!members.emplace(entry.name, read_member(archive, entry, where)).second)
      fail<FormatError>("{}: two members are called '{}'; the file is damaged", where, entry.name);
  }
  return members;
}

std::string zip(const std::map<std::string, std::string>& members, bool deflated) {
  std::string out, directory;
  for (const auto& [name, content] : members) {
    if (content.size() >= kMax32 || out.size() >= kMax32)
      fail("[zip] '{}' makes the archive larger than 4 GB; write it as safetensors", name);
    const std::string packed = deflated ? deflated_text(content) : content;
    Entry entry{name, 0, deflated ? kDeflated : kStored, 0, packed.size(), content.size(), out.size()};
    entry.check_sum =
        static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()));
    put(out, kMember, 4);
    put_common(out, entry, 0);
    out += name + packed;
    put(directory, kEntry, 4);
    put(directory, 20, 2);
    put_common(directory, entry, 0);
    put(directory, 0, 2 + 2 + 2 + 4);
    put(directory, entry.offset, 4);
    directory += name;
  }
  const size_t start = out.size();
  out += directory;
  put(out, kEnd, 4);
  put(out, 0, 4);
  put(out, members.size(), 2);
  put(out, members.size(), 2);
  put(out, directory.size(), 4);
  put(out, start, 4);
  put(out, 0, 2);
  return out;
}

}  // namespace luminal
