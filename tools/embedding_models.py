#!/usr/bin/env python3
"""Makes tiny encoders with random weights, and stores what `transformers` computes of texts with them.

    python3 -m venv venv && venv/bin/pip install torch transformers gguf==0.19.0
    venv/bin/python tools/embedding_models.py tests/unit/models/data/encoders

writes for each case a folder NAME as sentence-transformers publishes them (config.json, model.safetensors,
tokenizer.json, modules.json), the same as NAME/model.gguf with the keys and names of llama.cpp's converter, texts.json,
and expected.safetensors with their vectors: pooled, of length 1.

    venv/bin/python tools/embedding_models.py FOLDER --check TEXTS VECTORS

compares the vectors that `luminal embed FOLDER -f TEXTS --json` printed with those of transformers, of any real model.
"""
import argparse
import json
import pathlib
import random
import string

import gguf
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

CASES = {
    "mean": (dict(num_hidden_layers=2), "mean"),
    "cls": (dict(num_hidden_layers=1, hidden_size=24, num_attention_heads=2, type_vocab_size=1), "cls"),
}
SIZES = dict(hidden_size=32, num_attention_heads=4, intermediate_size=40, max_position_embeddings=48, type_vocab_size=2)
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["the", "cat", "sleep", "##s", "##ing", "on", "a", "sofa", "rate", "rose"]
VOCABULARY = [*SPECIAL, *WORDS, *string.ascii_lowercase[1:], *("##" + c for c in string.ascii_lowercase if c != "s"),
              *string.digits, *".,!?-'"]


def texts(seed):
    """Of several lengths, with what the vocabulary knows and what not."""
    draw = random.Random(seed)
    words = ["the", "cat", "sleeps", "sleeping", "on", "a", "sofa", "rates", "rose", "Zürich", "CAFÉ", "2026", "日本",
             "x!"]
    return [" ".join(draw.choices(words, k=count)) for count in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 5, 11)]


def write_tokenizer(folder):
    ids = {token: i for i, token in enumerate(VOCABULARY)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(token, ids[token]) for token in ("[CLS]", "[SEP]")])
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


def write_modules(folder, pooling, size):
    kinds = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
    modules = [dict(idx=i, name=str(i), path=path, type=f"sentence_transformers.models.{kind}")
               for i, (kind, path) in enumerate(kinds)]
    (folder / "modules.json").write_text(json.dumps(modules, indent=1) + "\n")
    (folder / "1_Pooling").mkdir(exist_ok=True)
    config = {"word_embedding_dimension": size, "pooling_mode_cls_token": pooling == "cls",
              "pooling_mode_mean_tokens": pooling == "mean", "pooling_mode_max_tokens": False,
              "pooling_mode_mean_sqrt_len_tokens": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(config, indent=1) + "\n")


def vectors(model, encode, some, pooling, most):
    rows = []
    for text in some:
        ids = torch.tensor([encode(text)])
        assert ids.shape[1] <= most, (text, ids.shape)
        with torch.no_grad():
            hidden = model(ids, attention_mask=torch.ones_like(ids)).last_hidden_state[0]
        rows.append(hidden[0] if pooling == "cls" else hidden.mean(0))
    return torch.nn.functional.normalize(torch.stack(rows)).contiguous()


def write_gguf(folder, config, pooling):
    writer = gguf.GGUFWriter(str(folder / "model.gguf"), "bert")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_layer_norm_eps(config.layer_norm_eps)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.CLS if pooling == "cls" else gguf.PoolingType.MEAN)
    writer.add_token_type_count(config.type_vocab_size)
    writer.add_tokenizer_model("bert")
    writer.add_token_list([t if t in SPECIAL else t[2:] if t.startswith("##") else "\u2581" + t for t in VOCABULARY])
    writer.add_token_types([gguf.TokenType.CONTROL if t in SPECIAL else gguf.TokenType.NORMAL for t in VOCABULARY])
    for add, token in ((writer.add_bos_token_id, "[CLS]"), (writer.add_sep_token_id, "[SEP]"),
                       (writer.add_unk_token_id, "[UNK]"), (writer.add_pad_token_id, "[PAD]")):
        add(VOCABULARY.index(token))
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, config.num_hidden_layers)
    for name, tensor in load_file(folder / "model.safetensors").items():
        if "pooler" in name:
            continue
        target = names.get_name(name, try_suffixes=(".weight", ".bias"))
        writer.add_tensor(target, tensor.float().contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make(folder, changes, pooling, seed):
    folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(seed)
    config = transformers.BertConfig(**{**SIZES, **changes}, vocab_size=len(VOCABULARY), attn_implementation="eager")
    model = transformers.BertModel(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            noise = torch.randn(weight.shape, generator=generator)
            weight.copy_(noise * (1.5 / weight.shape[-1] ** 0.5) if weight.dim() > 1 else weight + noise * 0.2)
    model.save_pretrained(folder)
    tokenizer = write_tokenizer(folder)
    write_modules(folder, pooling, config.hidden_size)
    write_gguf(folder, config, pooling)
    some = texts(seed)
    most = config.max_position_embeddings
    wanted = vectors(model, lambda text: tokenizer.encode(text).ids, some, pooling, most)
    save_file({"vectors": wanted}, folder / "expected.safetensors")
    (folder / "texts.json").write_text(json.dumps(some, ensure_ascii=False) + "\n")


def check(folder, lines, printed):
    some = [line for line in lines.read_text().split("\n") if line]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    pooling = "mean"
    if (config := folder / "1_Pooling" / "config.json").exists():
        pooling = "cls" if json.loads(config.read_text()).get("pooling_mode_cls_token") else "mean"
    most = model.config.max_position_embeddings
    wanted = vectors(model, lambda text: tokenizer(text)["input_ids"], some, pooling, most)
    got = torch.tensor([each["embedding"] for each in json.loads(printed.read_text())["data"]])
    print(f"{len(some)} texts, the greatest difference {(got - wanted).abs().max().item():.1e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--check", nargs=2, type=pathlib.Path, metavar=("TEXTS", "VECTORS"))
    options = parser.parse_args()
    if options.check:
        check(options.folder, *options.check)
        return
    for name, (changes, pooling) in CASES.items():
        make(options.folder / name, changes, pooling, options.seed)
        print(name)


if __name__ == "__main__":
    main()
