#include "formats/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/fail.h"
#include "formats/deflate.h"

namespace luminal {
namespace {

constexpr uint32_t kMember = 0x04034b50, kEntry = 0x02014b50, kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr size_t kEndBytes = 22, kEntryBytes = 46, kMemberBytes = 30, kLocatorBytes = 20, kEnd64Bytes = 56;
constexpr uint16_t kStored = 0, kDeflated = 8;
constexpr uint64_t kMax16 = std::numeric_limits<uint16_t>::max();
constexpr uint64_t kMax32 = std::numeric_limits<uint32_t>::max();
constexpr uint16_t kVersion = 20, kVersion64 = 45;  // of the format, for readers

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
      fail<FormatError>("{}: the archive ends early: the file is truncated; download or write it again",
                        where_);
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
    fail<FormatError>("{}: {} bytes are not a zip archive; give an .npz file", where, archive.size());
  // The end record is the last thing but for a comment of at most 64 KiB.
  const size_t first = archive.size() - std::min<size_t>(archive.size(), kEndBytes + 0xffff);
  const size_t end = archive.rfind("PK\x05\x06", archive.size() - kEndBytes);
  if (end == std::string_view::npos || end < first)
    fail<FormatError>("{}: the end of the zip archive is missing; the file is truncated or of another format",
                      where);
  Reader reader(archive, end, where);
  if (reader.u32() != kEnd) fail<FormatError>("{}: the end record is damaged; write the file again", where);
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
    fail<FormatError>("{}: the zip64 end record is damaged; write the file again", where);
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
  if (reader.u32() != kEntry) fail<FormatError>("{}: its directory is damaged; write the file again", where);
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

uint32_t sum_of(std::string_view content) {
  return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()));
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
    fail<FormatError>("{}: member '{}' is damaged; download or write the file again", where, name);
  return content;
}

/// A member in its place: the header before it and its packed bytes.
struct Member {
  Entry entry;
  std::string_view packed;
  size_t begin = 0, end = 0;  ///< in the archive, header included
};

Member locate(std::string_view archive, Entry entry, const std::string& where) {
  if ((entry.flags & 1) != 0)
    fail<FormatError>("{}: member '{}' is encrypted; unpack the archive first", where, entry.name);
  if (entry.method != kStored && entry.method != kDeflated)
    fail<FormatError>("{}: member '{}' is compressed with method {}; use deflate or no compression", where,
                      entry.name, entry.method);
  Reader reader(archive, static_cast<size_t>(entry.offset), where);
  if (reader.u32() != kMember)
    fail<FormatError>("{}: member '{}' is not where the directory says; write the file again", where,
                      entry.name);
  reader.skip(kMemberBytes - 8);
  const uint16_t name = reader.u16(), extra = reader.u16();
  reader.skip(size_t{name} + extra);
  const std::string_view packed = reader.text(static_cast<size_t>(entry.packed));
  if (entry.method == kStored ? entry.size != entry.packed : entry.size / kMostPerByte > entry.packed)
    fail<FormatError>("{}: member '{}' cannot hold {} bytes in {}; the file is damaged", where, entry.name,
                      entry.size, entry.packed);
  const auto begin = static_cast<size_t>(entry.offset);
  return {std::move(entry), packed, begin, reader.at()};
}

/// Members that share packed bytes are no writer's doing: a small file would unpack to any size.
void check_apart(const std::vector<Member>& members, const std::string& where) {
  std::vector<const Member*> order;
  for (const Member& member : members) order.push_back(&member);
  std::ranges::sort(order, {}, &Member::begin);
  for (size_t i = 1; i < order.size(); ++i)
    if (order[i]->begin < order[i - 1]->end)
      fail<FormatError>(
          "{}: members '{}' and '{}' overlap: one ends at byte {}, the other begins at {}; do not use the "
          "file",
          where, order[i - 1]->entry.name, order[i]->entry.name, order[i - 1]->end, order[i]->begin);
}

std::string unpacked(const Member& member, const std::string& where) {
  const Entry& entry = member.entry;
  std::string content = entry.method == kStored
                            ? std::string(member.packed)
                            : inflated(member.packed, static_cast<size_t>(entry.size), where, entry.name);
  if (sum_of(content) != entry.check_sum)
    fail<FormatError>("{}: member '{}' does not match its checksum; download or write the file again", where,
                      entry.name);
  return content;
}

// --- Writing

void put(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(i < 8 ? static_cast<char>(value >> (8 * i) & 0xff) : '\0');
}

std::string deflated_text(std::string_view content) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  std::string packed(deflateBound(&stream, static_cast<uLong>(content.size())), '\0');
  constexpr size_t kStep = size_t{1} << 30;  // zlib counts what it is given in 32 bits
  size_t in = 0, out = 0;
  for (int status = Z_OK; status != Z_STREAM_END;) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data() + in));
    stream.avail_in = static_cast<uInt>(std::min(kStep, content.size() - in));
    stream.next_out = reinterpret_cast<Bytef*>(packed.data() + out);
    stream.avail_out = static_cast<uInt>(std::min(kStep, packed.size() - out));
    const uInt had_in = stream.avail_in, had_out = stream.avail_out;
    status = deflate(&stream, in + had_in == content.size() ? Z_FINISH : Z_NO_FLUSH);
    in += had_in - stream.avail_in;
    out += had_out - stream.avail_out;
  }
  deflateEnd(&stream);
  packed.resize(out);
  return packed;
}

/// Writes members one behind the other, and the directory behind them. A number above `most` stands in a
/// record of zip64 (APPNOTE 6.3, sections 4.3.14 and 4.5.3), and its own field holds the largest value
/// instead.
class Writer {
 public:
  explicit Writer(uint64_t most) : most_(most) {}

  void add(const std::string& name, std::string_view content, bool deflated) {
    const std::string packed = deflated ? deflated_text(content) : std::string();
    const std::string_view bytes = deflated ? std::string_view(packed) : content;
    const Entry entry{.name = name,
                      .method = deflated ? kDeflated : kStored,
                      .check_sum = sum_of(content),
                      .packed = bytes.size(),
                      .size = content.size(),
                      .offset = out_.size()};
    put(out_, kMember, 4);
    put_common(out_, entry, wide_numbers(entry, false).size());
    out_ += name;
    out_ += wide_numbers(entry, false);
    out_ += bytes;
    put_listed(entry);
    ++members_;
  }

  std::string finish() && {
    const uint64_t start = out_.size(), bytes = directory_.size();
    out_ += directory_;
    const uint64_t most_members = std::min(most_, kMax16 - 1);
    if (members_ > most_members || start > most_ || bytes > most_) put_end64(start, bytes);
    const uint64_t members = members_ > most_members ? kMax16 : members_;
    put(out_, kEnd, 4);
    put(out_, 0, 4);
    put(out_, members, 2);
    put(out_, members, 2);
    put(out_, narrow(bytes), 4);
    put(out_, narrow(start), 4);
    put(out_, 0, 2);
    return std::move(out_);
  }

 private:
  [[nodiscard]] uint64_t narrow(uint64_t value) const { return value > most_ ? kMax32 : value; }
  [[nodiscard]] bool has_wide_sizes(const Entry& entry) const {
    return entry.size > most_ || entry.packed > most_;  // if one is wide, both are
  }

  /// The extra field: those numbers that did not fit, in this order.
  [[nodiscard]] std::string wide_numbers(const Entry& entry, bool listed) const {
    std::string numbers, field;
    if (has_wide_sizes(entry)) {
      put(numbers, entry.size, 8);
      put(numbers, entry.packed, 8);
    }
    if (listed && entry.offset > most_) put(numbers, entry.offset, 8);
    if (numbers.empty()) return field;
    put(field, 1, 2);
    put(field, numbers.size(), 2);
    return field + numbers;
  }

  /// What a member's own header and its entry in the directory have in common.
  void put_common(std::string& out, const Entry& entry, size_t extra) const {
    constexpr uint16_t kFirstDay = 0x21;  // 1980-01-01
    const bool wide = has_wide_sizes(entry);
    put(out, wide ? kVersion64 : kVersion, 2);
    put(out, 0, 2);
    put(out, entry.method, 2);
    put(out, 0, 2);
    put(out, kFirstDay, 2);
    put(out, entry.check_sum, 4);
    put(out, wide ? kMax32 : entry.packed, 4);
    put(out, wide ? kMax32 : entry.size, 4);
    put(out, entry.name.size(), 2);
    put(out, extra, 2);
  }

  void put_listed(const Entry& entry) {
    const std::string extra = wide_numbers(entry, true);
    put(directory_, kEntry, 4);
    put(directory_, kVersion, 2);
    put_common(directory_, entry, extra.size());
    put(directory_, 0, 2 + 2 + 2 + 4);
    put(directory_, narrow(entry.offset), 4);
    directory_ += entry.name;
    directory_ += extra;
  }

  /// The end record of zip64 and where it is.
  void put_end64(uint64_t start, uint64_t bytes) {
    const uint64_t end = out_.size();
    put(out_, kEnd64, 4);
    put(out_, kEnd64Bytes - 12, 8);
    put(out_, kVersion64, 2);
    put(out_, kVersion64, 2);
    put(out_, 0, 4 + 4);
    put(out_, members_, 8);
    put(out_, members_, 8);
    put(out_, bytes, 8);
    put(out_, start, 8);
    put(out_, kLocator64, 4);
    put(out_, 0, 4);
    put(out_, end, 8);
    put(out_, 1, 4);
  }

  uint64_t most_, members_ = 0;
  std::string out_, directory_;
};

}  // namespace

std::map<std::string, std::string> unzip(std::string_view archive, const std::string& where,
                                         size_t limit_bytes) {
  const Directory directory = find_directory(archive, where);
  if (directory.entries > archive.size() / kEntryBytes)
    fail<FormatError>("{}: {} members do not fit in {} bytes; the file is damaged", where, directory.entries,
                      archive.size());
  Reader reader(archive, static_cast<size_t>(directory.offset), where);
  std::vector<Member> listed;
  size_t total = 0;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    listed.push_back(locate(archive, read_entry(reader, where), where));
    const uint64_t size = listed.back().entry.size;
    if (size > limit_bytes - total)
      fail<FormatError>(
          "{}: its members take more than the {} bytes allowed here; raise the limit if this is intended",
          where, limit_bytes);
    total += static_cast<size_t>(size);
  }
  check_apart(listed, where);
  std::map<std::string, std::string> members;
  for (const Member& member : listed)
    if (!members.emplace(member.entry.name, unpacked(member, where)).second)
      fail<FormatError>("{}: two members are called '{}'; the file is damaged", where, member.entry.name);
  return members;
}

std::string zip(const std::map<std::string, std::string>& members, bool deflated, uint64_t most) {
  Writer writer(most);
  for (const auto& [name, content] : members) {
    if (name.size() > kMax16)
      fail("[zip] a name of {} bytes does not fit, the format takes {}; choose a shorter one", name.size(),
           kMax16);
    writer.add(name, content, deflated);
  }
  return std::move(writer).finish();
}

}  // namespace luminal
