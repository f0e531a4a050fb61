#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "luminal/gguf.h"
#include "luminal/text/tokenizer.h"

/// The tokenizer that a GGUF file carries in its metadata.
///
///   const GgufFile file("model.gguf");
///   const text::Tokenizer tokenizer(models::gguf_tokenizer(file.metadata()));
///   const std::vector<text::TokenId> stop = models::gguf_stop_tokens(file.metadata());
namespace luminal::models {

/// Reads the keys `tokenizer.*`: byte-level BPE ("gpt2"), SentencePiece BPE ("llama"), unigram ("t5") and
/// WordPiece ("bert"), with control tokens and the chat template. Ids are those of the `tokenizers` package
/// where a file says all that this needs. Added tokens take no blanks beside them, except Phi-3's.
/// Errors: FormatError for a key that is missing or of the wrong kind, and for a part that is not known (such as
/// a precompiled normaliser).
[[nodiscard]] text::TokenizerSpec gguf_tokenizer(const GgufMetadata& metadata);

/// The tokens that end an answer: those that keys name (eos, eot, eom), and control tokens whose text is known to
/// do so, as files often leave keys out. Sorted. Errors: as gguf_tokenizer().
[[nodiscard]] std::vector<text::TokenId> gguf_stop_tokens(const GgufMetadata& metadata);

/// The keys `tokenizer.*` that say what a tokenizer of a model of this architecture is; `ends` end an answer. Texts of many kinds
/// are checked to give the same ids by these keys. Errors: FormatError for a tokenizer that they cannot say.
[[nodiscard]] GgufMetadata gguf_tokenizer_metadata(const text::TokenizerSpec& spec,
                                                   std::span<const text::TokenId> ends,
                                                   std::string_view architecture = "");

}  // namespace luminal::models
