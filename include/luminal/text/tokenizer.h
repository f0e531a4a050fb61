#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Text to token ids and back.
///
///   text::Tokenizer tokenizer(text::read_tokenizer("model"));  // a folder with tokenizer.json
///   std::vector<text::TokenId> ids = tokenizer.encode("Hello, world");
///   std::string text = tokenizer.decode(ids);
///
/// A text runs through these parts, each of which a `TokenizerSpec` states as plain data: added tokens are cut
/// out, what is between them is normalised, cut into words by the pre-tokeniser, and each word becomes tokens of
/// the vocabulary. Steps and results are those of the `tokenizers` package (Hugging Face).
namespace luminal::text {

using TokenId = int32_t;

/// What is looked for: a literal string, or a regular expression (PCRE2's syntax, Unicode).
struct Pattern {
  Pattern() {}  // not defaulted: g++ 12 would warn of members that are not initialised
  Pattern(std::string what, bool is_regex) : text(std::move(what)), regex(is_regex) {}
  std::string text;
  bool regex = false;
  friend bool operator==(const Pattern&, const Pattern&) = default;
};

struct NormalizerStep {
  enum class Kind {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
    Lowercase,
    Strip,
    StripAccents,
    Replace,
    Prepend,
    Bert,
    ByteLevel,
    Nmt
  };
  Kind kind = Kind::Nfc;
  Pattern pattern;                        ///< Replace
  std::string content = {};               ///< Replace, Prepend
  bool left = true, right = true;         ///< Strip: which ends
  bool clean = true, chinese = true;      ///< Bert: drop control characters, blanks around ideographs
  bool lowercase = true, accents = true;  ///< Bert: to lower case, drop accents
  friend bool operator==(const NormalizerStep&, const NormalizerStep&) = default;
};

struct PreTokenizerStep {
  enum class Kind { Split, Prefix, ByteLevel, Metaspace };
  enum class Behavior { Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous };
  enum class Prepend { Never, First, Always };
  Kind kind = Kind::Split;
  Pattern pattern;                         ///< Split
  Behavior behavior = Behavior::Isolated;  ///< Split: what becomes of the matches
  bool invert = false;                     ///< Split: the pattern describes the words, not what divides them
  Prepend prepend = Prepend::Never;        ///< Metaspace: where the replacement is put before a word
  std::string replacement = "\u2581";      ///< Metaspace: for blanks; Prefix puts a blank before each word
  bool split = true;                       ///< Metaspace: whether words are divided there
  friend bool operator==(const PreTokenizerStep&, const PreTokenizerStep&) = default;
};

struct DecoderStep {
  enum class Kind { ByteLevel, ByteFallback, Metaspace, Replace, Strip, Fuse, WordPiece, Suffix };
  Kind kind = Kind::Fuse;
  Pattern pattern;             ///< Replace
  std::string content = {};    ///< Replace; Strip: a character; WordPiece: prefix; Suffix; Metaspace
  size_t start = 0, stop = 0;  ///< Strip: how many at each end
  bool prefixed = true;        ///< Metaspace: the first blank was added
  bool cleanup = true;         ///< WordPiece: no blanks before punctuation
  friend bool operator==(const DecoderStep&, const DecoderStep&) = default;
};

/// A token that is found in the text itself, before all else.
struct AddedToken {
  TokenId id = 0;
  std::string content = {};
  bool special = false;                          ///< a control token: decoding leaves it out on request
  bool normalized = false;                       ///< looked for in the normalised text
  bool single_word = false;                      ///< only where no letter or digit is beside it
  bool left_strip = false, right_strip = false;  ///< takes the blanks beside it
  friend bool operator==(const AddedToken&, const AddedToken&) = default;
};

/// All that a tokenizer is made of, from `tokenizer.json` or a GGUF file's metadata.
struct TokenizerSpec {
  enum class Model { Bpe, Unigram, WordPiece };
  Model model = Model::Bpe;
  std::vector<std::string> vocabulary = {};  ///< by id; an empty string is an id without a token
  /// Bpe: what joins, the most important first. Without any, two tokens join where the vocabulary has the
  /// result, by the greatest of `scores` first (SentencePiece).
  std::vector<std::pair<std::string, std::string>> merges = {};
  std::vector<double> scores = {};  ///< Unigram, and Bpe without merges: by id
  std::optional<TokenId> unknown = {};
  bool byte_fallback = false;          ///< unknown characters become tokens <0x00> ... <0xFF>
  bool fuse_unknown = false;           ///< Bpe: neighbours that are unknown become one token
  bool ignore_merges = false;          ///< Bpe: a word of the vocabulary is that token
  std::string continuing_prefix = {};  ///< Bpe, WordPiece: of pieces that do not begin a word
  std::string end_suffix = {};         ///< Bpe: of the last piece of a word
  size_t max_word_characters = 100;    ///< WordPiece: longer words are unknown
  std::vector<AddedToken> added = {};
  std::vector<NormalizerStep> normalizers = {};
  std::vector<PreTokenizerStep> pre_tokenizers = {};
  std::optional<std::vector<DecoderStep>> decoders = {};  ///< without: tokens are joined by blanks
  std::vector<TokenId> begin = {}, end = {};              ///< put around a text
  std::string chat_template = {};                         ///< empty if there is none
  std::string begin_token = {}, end_token = {};           ///< as chat templates name them
};

/// What models with byte-level BPE differ in.
struct ByteLevelStyle {
  std::vector<NormalizerStep> normalizers = {};
  std::vector<PreTokenizerStep> pre_tokenizers = {};
  bool ignore_merges = false;
  bool begins = false;  ///< a text begins with the token for that, unless the file says otherwise
};

/// By the names of GGUF files (`tokenizer.ggml.pre`): "gpt-2", "llama-bpe", "qwen2", "smollm" and so on.
/// Errors: FormatError for another name, with the known ones.
[[nodiscard]] ByteLevelStyle byte_level_style(std::string_view name);

/// The name of the style that a spec has, the first of several; nothing if none of them is it.
[[nodiscard]] std::optional<std::string> byte_level_style_name(const TokenizerSpec& spec);

/// Each byte of a text is a token, whose id is the byte.
[[nodiscard]] TokenizerSpec byte_tokenizer();

/// BERT's: words are divided at blanks, and each punctuation mark is a word.
[[nodiscard]] std::vector<PreTokenizerStep> bert_pre_tokenizer();

/// Reads a `tokenizer.json`, or of a folder also `tokenizer_config.json` and `chat_template.jinja` where they are.
/// Errors: FormatError for a file that is missing, damaged, or has a part that is not known.
[[nodiscard]] TokenizerSpec read_tokenizer(const std::filesystem::path& path);
/// The same from the text of a tokenizer.json; `where` leads the messages.
[[nodiscard]] TokenizerSpec parse_tokenizer(std::string_view json, const std::string& where);

/// A tokenizer.json that parse_tokenizer() reads as this spec, but for what stands in tokenizer_config.json. BPE by
/// scores becomes BPE by merges, the same pieces in the same order.
[[nodiscard]] std::string tokenizer_json(const TokenizerSpec& spec);
/// Writes tokenizer.json and tokenizer_config.json into a folder. Errors: Error if writing fails.
void write_tokenizer(const TokenizerSpec& spec, const std::filesystem::path& folder);

struct EncodeOptions {
  bool add_special = true;  ///< put the spec's `begin` and `end` around the text
  bool parse_special =
      true;  ///< control tokens in the text are such; false where the text comes from outside
};

/// Thread safety: any number of threads may use one.
class Tokenizer {
 public:
  /// Errors: FormatError if parts of the spec contradict each other or a pattern does not compile.
  explicit Tokenizer(TokenizerSpec spec);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Errors: FormatError if the text is not UTF-8, or has an unknown character and the spec no token for such.
  /// Cost: n log n in the text's length.
  [[nodiscard]] std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;
  /// Bytes that are not UTF-8 become U+FFFD. Errors: Error for an id that is out of range.
  [[nodiscard]] std::string decode(std::span<const TokenId> ids, bool skip_special = true) const;

  [[nodiscard]] const TokenizerSpec& spec() const;
  /// One more than the greatest id.
  [[nodiscard]] size_t size() const;
  /// As the vocabulary spells it; empty for an id without a token. Errors: Error if out of range.
  [[nodiscard]] const std::string& token(TokenId id) const;
  [[nodiscard]] std::optional<TokenId> find(std::string_view token) const;
  [[nodiscard]] bool is_special(TokenId id) const;
  /// What each token adds to a text in its middle, as grammars need it: empty for control tokens.
  [[nodiscard]] std::vector<std::string> token_bytes() const;

 private:
  friend class StreamDecoder;
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Decodes token by token: what is handed out is whole characters, and together it is the text that `decode`
/// returns. (Only where byte tokens form no UTF-8 does `decode` replace the whole run of them by U+FFFD.)
/// The tokenizer must live longer. Thread safety: none, as it changes with each token.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = true);
  StreamDecoder(StreamDecoder&&) noexcept;
  ~StreamDecoder();
  /// The text that is certain now; often empty. Errors: Error for an id that is out of range.
  [[nodiscard]] std::string push(TokenId id);
  /// The rest, at the end.
  [[nodiscard]] std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace luminal::text
