#include <array>

#include "models/families/family.h"

namespace luminal::models {

extern const Family kLlamaFamily;
extern const Family kQwen2Family;
extern const Family kQwen3Family;
extern const Family kQwen3MoeFamily;
extern const Family kPhi3Family;
extern const Family kGemma2Family;
extern const Family kGemma3Family;
extern const Family kGpt2Family;
extern const Family kGptOssFamily;
extern const Family kBertFamily;

std::span<const Family* const> families() {
  static const std::array all{&kLlamaFamily,  &kQwen2Family,  &kQwen3Family, &kQwen3MoeFamily, &kPhi3Family,
                              &kGemma2Family, &kGemma3Family, &kGpt2Family,  &kGptOssFamily,   &kBertFamily};
  return all;
}

}  // namespace luminal::models
