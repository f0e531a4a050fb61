#include <algorithm>
#include <array>

#include "base/fail.h"
#include "base/suggest.h"
#include "luminal/gguf.h"

namespace luminal {
namespace {

/// Source: ggml.h (numbers), ggml-common.h (blocks).
constexpr std::array kGgufTypes{
    GgufType{0, "F32", 1, 4, Dtype::F32},
    GgufType{1, "F16", 1, 2, Dtype::F16},
    GgufType{2, "Q4_0", 32, 18, Dtype::Q4_0},
    GgufType{3, "Q4_1", 32, 20, Dtype::Q4_1},
    GgufType{6, "Q5_0", 32, 22, Dtype::Q5_0},
    GgufType{7, "Q5_1", 32, 24, Dtype::Q5_1},
    GgufType{8, "Q8_0", 32, 34, Dtype::Q8_0},
    GgufType{10, "Q2_K", 256, 84, Dtype::Q2_K},
    GgufType{11, "Q3_K", 256, 110, Dtype::Q3_K},
    GgufType{12, "Q4_K", 256, 144, Dtype::Q4_K},
    GgufType{13, "Q5_K", 256, 176, Dtype::Q5_K},
    GgufType{14, "Q6_K", 256, 210, Dtype::Q6_K},
    GgufType{16, "IQ2_XXS", 256, 66, Dtype::IQ2_XXS},
    GgufType{17, "IQ2_XS", 256, 74, Dtype::IQ2_XS},
    GgufType{18, "IQ3_XXS", 256, 98, Dtype::IQ3_XXS},
    GgufType{19, "IQ1_S", 256, 50, Dtype::IQ1_S},
    GgufType{20, "IQ4_NL", 32, 18, Dtype::IQ4_NL},
    GgufType{21, "IQ3_S", 256, 110, Dtype::IQ3_S},
    GgufType{22, "IQ2_S", 256, 82, Dtype::IQ2_S},
    GgufType{23, "IQ4_XS", 256, 136, Dtype::IQ4_XS},
    GgufType{24, "I8", 1, 1, Dtype::I8},
    GgufType{25, "I16", 1, 2, {}},
    GgufType{26, "I32", 1, 4, Dtype::I32},
    GgufType{27, "I64", 1, 8, Dtype::I64},
    GgufType{28, "F64", 1, 8, Dtype::F64},
    GgufType{29, "IQ1_M", 256, 56, Dtype::IQ1_M},
    GgufType{30, "BF16", 1, 2, Dtype::BF16},
    GgufType{34, "TQ1_0", 256, 54, Dtype::TQ1_0},
    GgufType{35, "TQ2_0", 256, 66, Dtype::TQ2_0},
    GgufType{39, "MXFP4", 32, 17, Dtype::MXFP4},
    GgufType{40, "NVFP4", 64, 36, Dtype::NVFP4},
};

std::string upper_case(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return result;
}

}  // namespace

std::span<const GgufType> gguf_types() { return kGgufTypes; }

const GgufType& gguf_type(std::string_view name) {
  const std::string wanted = upper_case(name);
  const auto* found = std::ranges::find(kGgufTypes, wanted, &GgufType::name);
  if (found != kGgufTypes.end()) return *found;
  std::vector<std::string> names;
  for (const GgufType& type : kGgufTypes) names.emplace_back(type.name);
  fail<DtypeError>("[gguf] no element type '{}'; there are {}{}", name, fmt::join(names, ", "),
                   did_you_mean(wanted, names));
}

}  // namespace luminal
