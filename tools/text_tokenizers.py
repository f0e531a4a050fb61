#!/usr/bin/env python3
"""Trains small tokenizers of every kind and stores what the `tokenizers` package makes of texts.

    python3 -m venv venv && venv/bin/pip install tokenizers
    venv/bin/python tools/text_tokenizers.py tests/unit/text/data

writes NAME.json, a tokenizer.json, and NAME.cases.json, a list of [text, ids, decoded text], for each kind.
With --cases N it makes N texts for each instead of the stored 120; --seed changes them.
"""
import argparse
import json
import pathlib
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

SENTENCES = [
    "The quick brown fox jumps over the lazy dog. It wasn't tired, they'll say; I'M SURE YOU'VE seen it!",
    "Der Zeitgeist übte Größe, Öl und Straße: äöüß.", "Où est l'été? Ça va bien, garçon, naïve cœur.",
    "Съешь же ещё этих мягких французских булок.", "Η γρήγορη καφέ αλεπού πηδάει.", "敏捷的棕色狐狸跳过懒狗。", "素早い茶色の狐が怠け者の犬を飛び越える。カタカナ",
    "빠른 갈색 여우가 게으른 개를 뛰어넘는다.", "الثعلب البني السريع يقفز فوق الكلب الكسول.", "השועל החום המהיר", "तेज़ भूरी लोमड़ी आलसी कुत्ते पर कूदती है।",
    "สุนัขจิ้งจอกสีน้ำตาล", "👩‍👩‍👧‍👦 family 🇩🇪 flag 👍🏽 thumbs 🤖", "x = 3.14159; y2 += 12345678 // sums\n\tif (a[i] != b) { return -1; }\r\n",
    "ﬁne ½ ² Ⅳ ℌ Å é é ﷺ ㍿ İstanbul ǅ ſharp", "a\u00a0b\u2003c\u3000d\u0085e\u2028f\u200bg", "tabs\t\tand   many    spaces  \n\n\n  end ",
]
CONTROLS = "\0\x01\x1b\x7f\x80\x85\xad\u200b\u200d\ufeff\ufffd\U000e0001"
SPECIAL = ["<s>", "</s>", "<|end|>", "[MASK]", " word", "café"]


def texts(count, seed):
    rng = random.Random(seed)
    letters = sorted(set("".join(SENTENCES)) | set(CONTROLS) | set("'\u2581 \t\n\r<>[]"))
    result = ["", " ", "  ", "\n", "a", *SENTENCES]
    while len(result) < count:
        parts = []
        for _ in range(rng.randint(1, 8)):
            kind = rng.random()
            if kind < 0.4:
                sentence = rng.choice(SENTENCES)
                start = rng.randrange(len(sentence))
                parts.append(sentence[start:start + rng.randint(1, 30)])
            elif kind < 0.6:
                parts.append("".join(rng.choice(letters) for _ in range(rng.randint(1, 10))))
            elif kind < 0.7:
                parts.append(rng.choice(SPECIAL))
            elif kind < 0.8:
                # Characters that Unicode 14 has already: libraries of different age agree on them.
                parts.append("".join(chr(rng.choice([rng.randrange(32, 0x250), rng.randrange(0x370, 0x530),
                                                     rng.randrange(0x3041, 0x3097), rng.randrange(0x4e00, 0x9fd0),
                                                     rng.randrange(0x1f300, 0x1f6d0)])) for _ in range(4)))
            elif kind < 0.9:
                parts.append(rng.choice(" \t\n\r") * rng.randint(1, 6))
            else:
                parts.append(rng.choice(["they're", "it's", "I'D", "1234567", "a", "foo_bar", "don't do not", "!!!", "'ſ"]))
        result.append("".join(parts))
    return result[:count]


def byte_level(pattern, prefix=False, merge_whole=False):
    t = Tokenizer(models.BPE(ignore_merges=merge_whole))
    if pattern == GPT2:
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    else:
        t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                                   pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    if pattern == QWEN2:
        t.normalizer = normalizers.NFC()
    return t, trainers.BpeTrainer(vocab_size=420, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=["<|end|>"])


def sentence_piece_bpe(metaspace):
    t = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    strip = decoders.Strip(" ", 1, 0)
    if metaspace:
        t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), strip])
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=520, special_tokens=special)
    return t, trainer


def unigram():
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    return t, trainers.UnigramTrainer(vocab_size=300, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>")


def word_piece():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    return t, trainers.WordPieceTrainer(vocab_size=300, special_tokens=["[UNK]", "[CLS]", "[SEP]", "[MASK]"])


def suffixed_bpe():
    t = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase(),
                                         normalizers.Strip()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(True),
                                               pre_tokenizers.Punctuation("merged_with_previous")])
    t.decoder = decoders.BPEDecoder()
    return t, trainers.BpeTrainer(vocab_size=300, special_tokens=["<unk>"], end_of_word_suffix="</w>")


def without_bytes(spec):
    """Byte tokens stand in the vocabulary, and are no text to look for."""
    spec["added_tokens"] = [a for a in spec["added_tokens"] if not a["content"].startswith("<0x")]
    return spec


KINDS = {
    "gpt2": lambda: byte_level(GPT2), "gpt2_prefix": lambda: byte_level(GPT2, True),
    "llama3": lambda: byte_level(LLAMA3, merge_whole=True), "qwen2": lambda: byte_level(QWEN2),
    "llama2": lambda: sentence_piece_bpe(False), "metaspace_bpe": lambda: sentence_piece_bpe(True),
    "unigram": unigram, "word_piece": word_piece, "suffixed_bpe": suffixed_bpe,
}


def make(name):
    t, trainer = KINDS[name]()
    t.train_from_iterator(SENTENCES * 3, trainer)
    t = Tokenizer.from_str(json.dumps(without_bytes(json.loads(t.to_str()))))
    if name in ("llama3", "llama2", "gpt2"):
        t.add_special_tokens([AddedToken("<s>"), AddedToken("</s>", rstrip=name == "gpt2", lstrip=name == "llama2")])
        t.add_tokens([AddedToken(" word", single_word=True), AddedToken("café", normalized=True)])
    if name == "word_piece":
        t.add_tokens([AddedToken("café", normalized=True)])
    first, last = ("[CLS]", "[SEP]") if name == "word_piece" else ("<s>", "</s>")
    if t.token_to_id(first) is not None:
        t.post_processor = processors.TemplateProcessing(
            single=f"{first} $A {last}", special_tokens=[(first, t.token_to_id(first)), (last, t.token_to_id(last))])
    return t


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--cases", type=int, default=120)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in KINDS:
        t = make(name)
        (args.folder / f"{name}.json").write_text(json.dumps(json.loads(t.to_str()), ensure_ascii=False) + "\n")
        cases = []
        for text in texts(args.cases, args.seed):
            ids = t.encode(text).ids
            cases.append([text, ids, t.decode(ids)])
        (args.folder / f"{name}.cases.json").write_text(json.dumps(cases, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
