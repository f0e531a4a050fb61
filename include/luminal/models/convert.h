#pragma once
#include <filesystem>

#include "luminal/dtype.h"

/// Language models from Hugging Face folders to GGUF files and back.
///
///   models::convert_to_gguf("SmolLM2-135M", "SmolLM2-135M.gguf");
///   models::convert_to_folder("SmolLM2-135M.gguf", "copy", Dtype::F16);
namespace luminal::models {

/// Writes a folder's weights, sizes, tokenizer and template as a GGUF file: matrices as they are stored, all else as
/// f32, under llama.cpp's names and in its order of rows. `file` is replaced when it is complete. Errors: FormatError
/// for folders that are damaged, of an unknown family, or say what GGUF metadata of the family cannot say.
void convert_to_gguf(const std::filesystem::path& folder, const std::filesystem::path& file);

/// Writes a GGUF file's weights as safetensors files of at most 4 GiB, with config.json, generation_config.json,
/// tokenizer.json and tokenizer_config.json. Floats stay as they are; blocks become `decoded`: f16, bf16 or f32.
/// `folder` appears when it is complete. Errors: Error if there is one; FormatError as above.
void convert_to_folder(const std::filesystem::path& file, const std::filesystem::path& folder,
                       Dtype decoded = Dtype::F16);

}  // namespace luminal::models
