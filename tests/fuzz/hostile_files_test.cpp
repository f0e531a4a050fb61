// Data files and JSON from outside, damaged: a documented error or a result, nothing else.
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "backends/kernel_file.h"
#include "base/hash.h"
#include "cli/train_run.h"
#include "formats/gzip.h"
#include "formats/zip.h"
#include "fuzz/hostile_input.h"
#include "kernel/spec.h"
#include "luminal/luminal.h"
#include "runtime/machine.h"
#include "search/verification/verify.h"

namespace luminal::fuzz {
namespace {

using test::content_of;
using Path = std::filesystem::path;

const std::string kFormats = std::string(LUMINAL_SOURCE_DIR) + "/tests/unit/formats/data/";
constexpr size_t kLimitBytes = size_t{1} << 24;  // of what a target may unpack to

/// What `write` writes to the path that it is given.
template <class Write>
std::string written(Write write) {
  const test::TemporaryFolder folder;
  write(folder.path() / "file");
  return content_of(folder.path() / "file");
}

TensorData tensor(Dtype dtype, std::vector<int64_t> dims) {
  TensorData data(dtype, std::move(dims));
  for (size_t i = 0; i < data.bytes.size(); ++i) data.bytes[i] = static_cast<std::byte>(i % 2);
  return data;
}

// --- Tensors and tables

std::vector<std::string> npy_files() {
  std::vector<std::string> files;
  for (const auto& [dtype, dims] : std::vector<std::pair<Dtype, std::vector<int64_t>>>{
           {Dtype::F32, {2, 3}}, {Dtype::I64, {}}, {Dtype::F16, {0, 4}}, {Dtype::Bool, {5}}})
    files.push_back(written([&](const Path& path) { write_npy(path, tensor(dtype, dims)); }));
  // Written by NumPy: other byte order, Fortran order, later versions of the format.
  for (const auto& [name, content] : unzip(content_of(kFormats + "from_numpy.npz"), "[fuzz]", kLimitBytes))
    files.push_back(content);
  return files;
}

std::vector<std::string> idx_files() {
  return {std::string("\0\0\x08\2\0\0\0\2\0\0\0\3abcdef", 18),
          written([](const Path& path) { write_idx(path, tensor(Dtype::F32, {2, 1, 2})); })};
}

std::vector<std::string> gguf_files() {
  return {content_of(kFormats + "from_python.gguf"), written([](const Path& path) {
            GgufWriter writer(path, {{"general.alignment", uint32_t{8}}},
                              {{"w", &gguf_type("Q6_K"), {1, 256}}, {"b", &gguf_type("F16"), {3}}});
            writer.append(std::vector<std::byte>(210));
            writer.append(std::vector<std::byte>(6));
            writer.finish();
          })};
}

void read_gguf(const Path& path) {
  const GgufFile file(path);
  for (const auto& [key, value] : file.metadata()) (void)to_text(value);
  for (const GgufTensorInfo& tensor : file.tensors()) (void)file.read_f32(tensor.name);
}

std::vector<std::string> tables() { return {"a,\"b c\",d\n1,2.5,-3\n\"4\",5e3,6\n", "x\n0\n-0.5\n"}; }

void read_table(const Path& file) {
  const CsvTable read = read_csv(file, {.limit_bytes = kLimitBytes});
  for (const std::string& name : read.columns()) (void)read.numbers({name});
}

std::vector<std::string> gzipped(std::vector<std::string> files) {
  for (std::string& file : files) file = gzip(file);
  return files;
}

/// Half the weights of a layer are left out, doubled, of another shape or type.
void load_weights(const Path& file) {
  const SafetensorsFile opened(file);
  std::map<std::string, TensorData> weights;
  for (const std::string& name : opened.names()) weights.emplace(name, opened.read(name));
  Graph cx;
  const nn::Linear layer(cx, 3, 2);
  nn::load_state_dict(layer, weights);
}

std::string weights_file() {
  Graph cx;
  const nn::Linear layer(cx, 3, 2);
  const auto weights = nn::state_dict(layer);
  return written([&](const Path& path) { write_safetensors(path, {weights.begin(), weights.end()}, {}); });
}

/// A file as the pixels of a set, and as its labels.
void load_as_images(const Path& file) {
  const test::TemporaryFolder folder;
  const Path pixels = folder.path() / "pixels", labels = folder.path() / "labels";
  write_idx(pixels, tensor(Dtype::U8, {2, 2, 2}));
  write_idx(labels, tensor(Dtype::U8, {2}));
  std::optional<Error> refused;
  try {
    (void)data::load_images(file, labels, 2);
  } catch (const Error& error) {
    refused = error;
  }
  try {
    (void)data::load_images(pixels, file, 2);
  } catch (const Error&) {
    if (refused) throw;
  }
}

std::vector<std::string> image_files() {
  return {written([](const Path& path) { write_idx(path, tensor(Dtype::U8, {2, 2, 2})); }),
          written([](const Path& path) { write_idx(path, tensor(Dtype::U8, {2})); })};
}

std::string metrics_file() {
  return written([](const Path& path) {
    data::MetricsLog log(path);
    for (int step = 1; step < 5; ++step)
      log.write({{"step", step}, {"loss", 1.0 / step}, {"val/loss", 2.5}, {"name", "run"}, {"done", false}});
  });
}

/// Draws the curves, and goes on behind step 3 as a run that is resumed does.
void read_metrics(const Path& file) {
  const test::TemporaryFolder folder;
  const Path copy = folder.file("metrics.jsonl", content_of(file));
  cli::RunOptions options;
  options.metrics = copy;
  cli::RunLog(options, 3).finish();
  (void)data::plot_metrics(file, folder.path() / "page.html", "step");
}

// --- JSON of our own

std::string spec_text() {
  return R"({"extents":["4","5"],"slots":[{"dtype":"f32","elements":"20"}],"values":[{"axes":[0],"reduced":[1],)"
         R"("monoid":"sum","body":{"nodes":[["input","f32","0"]],"result":0},"operands":[{"kind":"load",)"
         R"("dtype":"f32","slot":0,"index":"5 * i0[4] + i1[5]"}]}],"outputs":[{"value":0,"index":"i0[4]",)"
         R"("elements":"4"}]})";
}

std::string suite_text() {
  return R"({"suite":2,"seed":1,"dims":{},"tensors":[{"dtype":"f32","dims":[2]},{"dtype":"f32","dims":[2]}],)"
         R"("kernels":[{"inputs":[0],"outputs":[1],"in_place":-1}],"cases":[{"name":"plain","beyond_laws":false,"inputs":)"
         R"(["0000803f0000803f",null],"expectations":[{"tensor":1,"positions":[0,1],"values":[1,"inf"],)"
         R"("errors":[0,1e-6],"integers":[],"known":[true,false],"promised":[true,true]}]}]})";
}

std::string kernel_file() {
  const backends::KernelFile file{.host = "cpu, +features",
                                  .dims = {"batch", "s"},
                                  .symbols = {"stage_0", "stage_1"},
                                  .tasks = {Expression("batch") * 3, Expression("s").ceil_div(4)},
                                  .threads = {1, 64},
                                  .shared_bytes = Expression("batch") * 64,
                                  .local_bytes = 4096,
                                  .object = std::vector<std::byte>(100, std::byte{7})};
  const std::vector<std::byte> bytes = to_bytes(file);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// As it is, and with the checksum that belongs to what follows it.
void read_kernel_file(std::string input) {
  constexpr size_t kSum = 8, kBody = 16;
  const auto read = [&] {
    const backends::KernelFile file = backends::parse_kernel_file(std::as_bytes(std::span(input)));
    for (const Expression& tasks : file.tasks) (void)tasks.exec({{"batch", 3}, {"s", 5}});
  };
  if (input.size() >= kBody) {
    const uint64_t sum = hash_bytes(input.data() + kBody, input.size() - kBody);
    std::memcpy(&input[kSum], &sum, sizeof(sum));
  }
  read();
}

/// The file in which the figures of a machine are kept, for a device that need not be measured.
struct Limits {
  test::TemporaryFolder folder;
  std::shared_ptr<backends::Device> backend = backends::make_null_device();
  Limits() { (void)runtime::limits_of(*backend, folder.path()); }
  [[nodiscard]] Path file() const { return std::filesystem::directory_iterator(folder.path())->path(); }
};

std::string limits_file() { return content_of(Limits().file()); }

/// With the checksum that belongs to the rest, if there is a rest. What does not read is measured anew.
void read_limits(const std::string& input) {
  static const Limits kept;
  std::string text = input;
  const auto json = nlohmann::json::parse(input, nullptr, false);
  if (json.is_object()) {
    nlohmann::json summed = json;
    summed.erase("check_sum");
    summed["check_sum"] = fmt::format(
        "{:016x}", hash_bytes(summed.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
    text = summed.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  (void)kept.folder.file(kept.file().filename().string(), text);
  const kernel::MachineLimits limits = runtime::limits_of(*kept.backend, kept.folder.path());
  for (const double figure : {limits.flops_per_us, limits.one_thread_flops_per_us, limits.memory_bytes_per_us,
                              limits.cache_bytes_per_us, limits.l2_bytes_per_us, limits.launch_us})
    if (!(figure > 0) || std::isinf(figure)) throw std::runtime_error("a figure that no machine has");
  if (limits.threads < 1 || limits.cache_bytes < 1 || limits.l2_bytes < 1 || limits.vector_bytes < 1)
    throw std::runtime_error("a size that no machine has");
  if (text != content_of(kept.file())) throw FormatError("measured anew");
}

std::vector<Target> file_targets() {
  return {
      {"safetensors", [] { return std::vector{content_of(kFormats + "from_python.safetensors")}; },
       [](const std::string&, const Path& file) {
         const SafetensorsFile opened(file);
         for (const std::string& name : opened.names()) (void)opened.read(name);
       }},
      {"weights", [] { return std::vector{weights_file()}; },
       [](const std::string&, const Path& file) { load_weights(file); }},
      {"npy", npy_files, [](const std::string&, const Path& file) { (void)read_npy(file, kLimitBytes); }},
      {"npz",
       [] {
         return std::vector{content_of(kFormats + "from_numpy.npz"),
                            content_of(kFormats + "from_numpy_compressed.npz")};
       },
       [](const std::string&, const Path& file) { (void)read_npz(file, kLimitBytes); }},
      {"npz whose checksums fit", npy_files,
       [](const std::string& input, const Path& file) {
         std::ofstream(file, std::ios::binary) << zip({{"a.npy", input}, {"b.npy", input}}, true);
         (void)read_npz(file, kLimitBytes);
       }},
      {"zip",
       [] {
         return std::vector{zip({{"a", "text"}, {"b", std::string(500, 'b')}}, true),
                            zip({{"a", "text"}}, false, 0)};
       },
       [](const std::string& input, const Path&) { (void)unzip(input, "[fuzz]", kLimitBytes); }},
      {"gguf", [] { return gguf_files(); }, [](const std::string&, const Path& file) { read_gguf(file); }},
      {"idx", idx_files, [](const std::string&, const Path& file) { (void)read_idx(file, kLimitBytes); }},
      {"idx.gz", [] { return gzipped(idx_files()); },
       [](const std::string&, const Path& file) { (void)read_idx(file, kLimitBytes); }},
      {"idx.gz whose checksum fits", idx_files,
       [](const std::string& input, const Path& file) {
         std::ofstream(file, std::ios::binary) << gzip(input);
         (void)read_idx(file, kLimitBytes);
       }},
      {"images", image_files, [](const std::string&, const Path& file) { load_as_images(file); }},
      {"csv", tables, [](const std::string&, const Path& file) { read_table(file); }},
      {"csv.gz", [] { return gzipped(tables()); },
       [](const std::string&, const Path& file) { read_table(file); }},
      {"metrics", [] { return std::vector{metrics_file()}; },
       [](const std::string&, const Path& file) { read_metrics(file); }},
      {"spec JSON", [] { return std::vector{spec_text()}; },
       [](const std::string& input, const Path&) { (void)kernel::KernelSpec::parse_json(input); }},
      {"suite JSON", [] { return std::vector{suite_text()}; },
       [](const std::string& input, const Path&) { (void)search::parse_suite(input); }},
      {"compiled kernel", [] { return std::vector{kernel_file()}; },
       [](const std::string& input, const Path&) { read_kernel_file(input); }},
      {"machine limits", [] { return std::vector{limits_file()}; },
       [](const std::string& input, const Path&) { read_limits(input); }},
  };
}

class HostileFile : public testing::TestWithParam<Target> {};
TEST_P(HostileFile, IsReadOrRefused) { run(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Parsers, HostileFile, testing::ValuesIn(file_targets()), test_name);

}  // namespace
}  // namespace luminal::fuzz
