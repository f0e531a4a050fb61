#include "formats/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/fail.h"
#include "formats/deflate.h"

namespace luminal {
namespace {

constexpr int kGzipWindow = 15 + 16;  // zlib: largest window, with gzip's header and check sum

Bytef* zlib_pointer(const void* bytes) { return static_cast<Bytef*>(const_cast<void*>(bytes)); }
uInt zlib_size(size_t size) {
  return static_cast<uInt>(std::min<size_t>(size, std::numeric_limits<uInt>::max()));
}

}  // namespace

struct GzipSource::Inflater {
  Inflater() {
    if (inflateInit2(&stream, kGzipWindow) != Z_OK) throw std::bad_alloc();
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream); }
  z_stream stream{};
  bool ended = false;
};

GzipSource::GzipSource(std::string_view file, std::string where) : rest_(file), where_(std::move(where)) {
  if (file.starts_with("\x1f\x8b")) inflater_ = std::make_unique<Inflater>();
}
GzipSource::~GzipSource() = default;

size_t GzipSource::most_left() const {
  if (!inflater_) return rest_.size();
  if (inflater_->ended && rest_.empty()) return 0;
  // What the inflater holds back is less than its window.
  return (rest_.size() + 1) * kMostPerByte + (size_t{1} << 15);
}

size_t GzipSource::read(std::span<std::byte> out) {
  if (!inflater_) {
    const size_t size = std::min(out.size(), rest_.size());
    if (size > 0) std::memcpy(out.data(), rest_.data(), size);
    rest_.remove_prefix(size);
    return size;
  }
  z_stream& stream = inflater_->stream;
  size_t done = 0;
  while (done < out.size()) {
    if (inflater_->ended) {  // a gzip file may be several, one after the other
      if (rest_.empty()) break;
      inflateReset(&stream);
      inflater_->ended = false;
    }
    stream.next_in = zlib_pointer(rest_.data());
    stream.avail_in = zlib_size(rest_.size());
    stream.next_out = zlib_pointer(out.data() + done);
    stream.avail_out = zlib_size(out.size() - done);
    const uInt in = stream.avail_in, room = stream.avail_out;
    const int status = inflate(&stream, Z_NO_FLUSH);
    rest_.remove_prefix(in - stream.avail_in);
    done += room - stream.avail_out;
    if (status == Z_STREAM_END)
      inflater_->ended = true;
    else if (status == Z_BUF_ERROR && rest_.empty())
      fail<FormatError>("{}: the gzip data end early: the file is truncated; download or write it again",
                        where_);
    else if (status == Z_MEM_ERROR)
      throw std::bad_alloc();
    else if (status != Z_OK)
      fail<FormatError>("{}: the gzip data are damaged ({}); download or write the file again", where_,
                        stream.msg != nullptr ? stream.msg : "zlib gives no reason");
  }
  return done;
}

std::string gzip(std::string_view content) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  std::string packed;
  std::string chunk(size_t{1} << 16, '\0');
  int status = Z_OK;
  while (status != Z_STREAM_END) {
    if (stream.avail_in == 0) {
      stream.next_in = zlib_pointer(content.data());
      stream.avail_in = zlib_size(content.size());
      content.remove_prefix(stream.avail_in);
    }
    stream.next_out = zlib_pointer(chunk.data());
    stream.avail_out = zlib_size(chunk.size());
    status = deflate(&stream, content.empty() ? Z_FINISH : Z_NO_FLUSH);
    packed.append(chunk, 0, chunk.size() - stream.avail_out);
  }
  deflateEnd(&stream);
  return packed;
}

}  // namespace luminal
