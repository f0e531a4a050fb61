#!/usr/bin/env python3
"""Stores tokenizers as GGUF metadata, and what their own packages make of texts.

    python3 -m venv venv && venv/bin/pip install gguf==0.19.0 tokenizers sentencepiece
    venv/bin/python tools/gguf_tokenizers.py tests/unit/text/data tests/unit/models/data

For each tokenizer.json of the first folder (tools/text_tokenizers.py) that models of a GGUF kind use, NAME.gguf gets the
keys that llama.cpp's convert_hf_to_gguf.py writes, and NAME.cases.json a list of [text, ids, decoded text] by the
`tokenizers` package. GGUF does not say which blanks an added token takes, so none takes any here. SentencePiece's own
trainer makes two more, with cases by SentencePiece.
"""
import argparse
import io
import json
import pathlib

import gguf
import sentencepiece
from gguf import TokenType
from tokenizers import Tokenizer

from text_tokenizers import SENTENCES, texts

BPE = {"gpt2": "gpt-2", "llama3": "llama-bpe", "qwen2": "qwen2"}


def write(path, model, tokens, types, **keys):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    for key, value in keys.items():
        getattr(writer, f"add_{key}")(value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def vocabulary(spec):
    """Texts and types by id."""
    ids = {i: t for t, i in spec["model"]["vocab"].items()}
    added = {a["id"]: a for a in spec["added_tokens"]}
    tokens, types = [], []
    for i in range(max(list(ids) + list(added)) + 1):
        if i in added:
            tokens.append(added[i]["content"])
            types.append(TokenType.CONTROL if added[i]["special"] else TokenType.USER_DEFINED)
        else:
            tokens.append(ids.get(i, f"[PAD{i}]"))
            types.append(TokenType.NORMAL if i in ids else TokenType.UNUSED)
    return tokens, types


def begin_and_end(spec):
    processor = spec.get("post_processor")
    if not processor:
        return {"add_bos_token": False, "add_eos_token": False}
    first, last = (processor["single"][i]["SpecialToken"]["id"] for i in (0, -1))
    ids = {name: token["ids"][0] for name, token in processor["special_tokens"].items()}
    return {"bos_token_id": ids[first], "eos_token_id": ids[last], "add_bos_token": True, "add_eos_token": True}


def store(path, cases, encode, decode):
    rows = []
    for text in cases:
        ids = encode(text)
        ids = ids if isinstance(ids, list) else ids.ids
        rows.append([text, ids, decode(ids)])
    path.write_text(json.dumps(rows, ensure_ascii=False) + "\n")


def convert_json(name, source, target):
    spec = json.loads((source / f"{name}.json").read_text())
    for added in spec["added_tokens"]:
        added.update(normalized=False, single_word=False, lstrip=False, rstrip=False)
    tokenizer = Tokenizer.from_str(json.dumps(spec))
    store(target / f"{name}.cases.json", texts(120, 2), tokenizer.encode, tokenizer.decode)
    tokens, types = vocabulary(spec)
    keys = begin_and_end(spec)
    if name in BPE:
        merges = [m if isinstance(m, str) else " ".join(p.replace(" ", "\u0120") for p in m) for m in spec["model"]["merges"]]
        write(target / f"{name}.gguf", "gpt2", tokens, types, tokenizer_pre=BPE[name], token_merges=merges, **keys)
    else:
        phantom = [t if k == TokenType.CONTROL else t[2:] if t.startswith("##") else "\u2581" + t
                   for t, k in zip(tokens, types)]
        write(target / f"{name}.gguf", "bert", phantom, types, sep_token_id=keys["eos_token_id"],
              unk_token_id=spec["model"]["vocab"][spec["model"]["unk_token"]], **keys)


def convert_sentence_piece(name, target, prefixed):
    model = io.BytesIO()
    kind = "bpe" if name == "sp_bpe" else "unigram"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES * 3), model_writer=model, model_type=kind, vocab_size=700 if kind == "bpe" else 600,
        byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, character_coverage=0.98,
        add_dummy_prefix=prefixed, hard_vocab_limit=False, user_defined_symbols=["<|user|>"], minloglevel=2)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    tokens, types, scores = [], [], []
    for i in range(processor.get_piece_size()):
        tokens.append(processor.id_to_piece(i))
        scores.append(processor.get_score(i))
        types.append(TokenType.UNKNOWN if processor.is_unknown(i) else TokenType.CONTROL if processor.is_control(i)
                     else TokenType.BYTE if processor.is_byte(i)
                     else TokenType.USER_DEFINED if tokens[-1] == "<|user|>" else TokenType.NORMAL)
    write(target / f"{name}.gguf", "llama" if kind == "bpe" else "t5", tokens, types, tokenizer_pre="default",
          token_scores=scores, add_space_prefix=prefixed, bos_token_id=1, eos_token_id=2, unk_token_id=0,
          add_bos_token=True, add_eos_token=False, chat_template="{{ messages[0].content }}")
    plain = [t for t in texts(120, 3) if "\u2581" not in t and "<" not in t]  # it finds no control tokens in texts
    store(target / f"{name}.cases.json", plain, lambda text: [1, *processor.encode(text)], processor.decode)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("target", type=pathlib.Path)
    args = parser.parse_args()
    args.target.mkdir(parents=True, exist_ok=True)
    for name in [*BPE, "word_piece"]:
        convert_json(name, args.source, args.target)
    convert_sentence_piece("sp_bpe", args.target, True)
    convert_sentence_piece("sp_unigram", args.target, False)


if __name__ == "__main__":
    main()
