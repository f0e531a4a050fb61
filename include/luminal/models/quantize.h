#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

/// GGUF files with weights in blocks, from GGUF files and Hugging Face folders.
///
///   const models::QuantizeReport report = models::quantize_model("model", "model-Q4_K_M.gguf", "Q4_K_M");
///   std::cout << report.bits_per_weight() << " bits per weight\n";
namespace luminal::models {

/// A tensor that was just written.
struct QuantizedTensor {
  std::string name, from, to;  ///< types
  std::vector<int64_t> dims;
  size_t number = 0, count = 0;  ///< of all tensors
};

struct QuantizeOptions {
  std::filesystem::path importance =
      {};  ///< llama.cpp's importance matrix, GGUF or the older format; empty: none
  std::string output_type = {},
              embedding_type = {};  ///< of the head and of the embeddings; empty: the mixture's
  bool pure = false;                ///< one type for all matrices
  bool allow_requantize = false;    ///< from blocks to other blocks, which loses more
  std::function<void(const QuantizedTensor&)> progress = {};
};

struct QuantizeReport {
  int64_t bytes_before = 0, bytes_after = 0, elements = 0;  ///< of the tensors
  int64_t tensors = 0,
          smaller_blocks = 0;  ///< those whose rows are no whole blocks of their type: they got another
  [[nodiscard]] double bits_per_weight() const {
    return elements == 0 ? 0 : 8.0 * static_cast<double>(bytes_after) / static_cast<double>(elements);
  }
};

/// The names of all mixtures: "Q8_0", "Q4_K_M" ...
[[nodiscard]] std::vector<std::string> quantize_types();

/// Writes the model at `from` to the file `to`, with the types of a mixture of llama.cpp: what has one axis, norms and
/// routers stay as they are. On all threads; `to` is replaced when it is complete, and stays what it was otherwise.
/// Errors: DtypeError for an unknown type; FormatError for files that are damaged or of no known family; Error for
/// weights that blocks cannot hold and for a matrix of importances that does not fit; Cancelled.
QuantizeReport quantize_model(const std::filesystem::path& from, const std::filesystem::path& to,
                              std::string_view type, const QuantizeOptions& options = {});

}  // namespace luminal::models
