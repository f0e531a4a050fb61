#!/usr/bin/env python3
"""Makes tiny models of each family with random weights, and stores what `transformers` computes with them.

    python3 -m venv venv && venv/bin/pip install torch transformers gguf
    venv/bin/python tools/language_models.py tests/unit/models/data/families

writes for each case a folder NAME with config.json, model.safetensors and expected.safetensors (tokens, and the logits
behind the prompt and behind each of the tokens after it, computed one by one with a cache), and for some the same
weights as NAME/model.gguf. The case llama has a tokenizer too, and talk.json: texts that the model writes. --seed
changes the weights, --only makes some cases alone.

    venv/bin/python tools/language_models.py tests/unit/models/data/families --check NAME FOLDER

loads a folder that `luminal convert` made of the case NAME, and compares its logits with the stored ones.
"""
import argparse
import json
import pathlib

import gguf
import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models
from transformers.integrations import mxfp4

VOCABULARY, PROMPT, STEPS = 64, 24, 20
SIZES = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=128, bos_token_id=1, eos_token_id=2, pad_token_id=0)
YARN = dict(rope_type="yarn", rope_theta=1e4, factor=4.0, original_max_position_embeddings=32)
LLAMA3 = dict(rope_type="llama3", rope_theta=5e5, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)
LONGROPE = dict(rope_type="longrope", rope_theta=1e4, short_factor=[1.0, 1.1, 1.3, 1.7], long_factor=[1.5, 2.0, 3.0, 5.0],
                original_max_position_embeddings=64)

# Name: configuration, what differs from SIZES.
CASES = {
    "llama": ("Llama", dict(tie_word_embeddings=False)),
    "llama3": ("Llama", dict(rope_parameters=LLAMA3, tie_word_embeddings=True)),
    "llama_linear": ("Llama", dict(rope_parameters=dict(rope_type="linear", rope_theta=1e4, factor=2.0),
                                   attention_bias=True, mlp_bias=True)),
    "mistral": ("Mistral", dict(sliding_window=9, head_dim=12)),
    "mixtral": ("Mixtral", dict(num_local_experts=4, num_experts_per_tok=2, intermediate_size=24)),
    "qwen2": ("Qwen2", dict(tie_word_embeddings=True)),
    "qwen2_yarn": ("Qwen2", dict(rope_parameters=YARN)),
    "qwen3": ("Qwen3", dict(head_dim=16)),
    "qwen3moe": ("Qwen3Moe", dict(head_dim=8, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=16,
                                  norm_topk_prob=True)),
    "phi3": ("Phi3", dict(sliding_window=11)),
    "phi3_long": ("Phi3", dict(rope_parameters=LONGROPE, original_max_position_embeddings=64)),
    "gemma2": ("Gemma2", dict(head_dim=8, sliding_window=7, query_pre_attn_scalar=8)),
    "gemma3": ("Gemma3", dict(head_dim=8, sliding_window=7, query_pre_attn_scalar=8, num_hidden_layers=6, hidden_size=24,
                              intermediate_size=32)),
    "gptoss": ("GptOss", dict(head_dim=8, sliding_window=7, intermediate_size=24, num_local_experts=4,
                              num_experts_per_tok=2, tie_word_embeddings=False,
                              rope_parameters=dict(YARN, truncate=False))),
    # The published form, whose experts are MXFP4 blocks of 32.
    "gptoss_mxfp4": ("GptOss", dict(head_dim=8, num_hidden_layers=1, intermediate_size=32, num_local_experts=2,
                                    num_experts_per_tok=1, tie_word_embeddings=False)),
    "gpt2": ("GPT2", dict(n_embd=32, n_layer=2, n_head=4, n_positions=64)),
}
# Configurations as older versions of transformers wrote them.
OLD = {"llama3", "gemma3"}


def configuration(kind, changes):
    if kind == "GPT2":
        return transformers.GPT2Config(vocab_size=VOCABULARY, bos_token_id=1, eos_token_id=2, **changes)
    name = kind + ("TextConfig" if kind == "Gemma3" else "Config")
    return getattr(transformers, name)(**{**SIZES, **changes})


def model_class(kind):
    return getattr(transformers, "GPT2LMHeadModel" if kind == "GPT2" else kind + "ForCausalLM")


def randomise(model, generator):
    """Weights at which attention is sharp and nothing is nearly linear."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            wide = weight.dim() > 1
            noise = torch.randn(weight.shape, generator=generator)
            if "experts.gate_up_proj" in name and not name.endswith("bias"):
                weight.copy_(noise * 0.7)  # so that some gates reach their limit
            elif wide:
                weight.copy_(noise * (1.5 / weight.shape[-1] ** 0.5))
            elif name.endswith("bias"):
                weight.copy_(noise * 0.2)
            else:
                weight.add_(noise * 0.2)


def to_mxfp4(model, generator):
    """Random blocks as the experts of gpt-oss, decoded by transformers into the model; returns the tensors."""
    stored = {}
    for i, layer in enumerate(model.model.layers):
        for part in ("gate_up_proj", "down_proj"):
            weight = getattr(layer.mlp.experts, part)  # [experts, in, out]
            shape = (weight.shape[0], weight.shape[2], weight.shape[1] // 32)
            blocks = torch.randint(0, 256, (*shape, 16), generator=generator).to(torch.uint8)
            scales = torch.randint(123, 126, shape, generator=generator).to(torch.uint8)
            weight.data.copy_(mxfp4.convert_moe_packed_tensors(blocks, scales, dtype=torch.float32))
            stored[f"model.layers.{i}.mlp.experts.{part}_blocks"] = blocks
            stored[f"model.layers.{i}.mlp.experts.{part}_scales"] = scales
    return stored


def store_blocks(folder, blocks):
    """Replaces the matrices of experts in a folder by these blocks."""
    tensors = load_file(folder / "model.safetensors")
    for name in blocks:
        tensors.pop(name.removesuffix("_blocks"), None)
    save_file({**tensors, **blocks}, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4"}
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")


def expected(model, tokens):
    with torch.no_grad():
        out = model(tokens[:, :PROMPT], use_cache=True)
        rows, cache = [out.logits[0, -1]], out.past_key_values
        for i in range(PROMPT, PROMPT + STEPS):
            out = model(tokens[:, i:i + 1], past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            rows.append(out.logits[0, -1])
    return torch.stack(rows).float().contiguous()


def to_old(config):
    """`rope_parameters` as `rope_theta`, `rope_scaling` and Gemma 3's keys."""
    rope = config.pop("rope_parameters")
    local = rope.get("sliding_attention")
    if local:
        config["rope_local_base_freq"], rope = local["rope_theta"], rope["full_attention"]
        config["sliding_window_pattern"] = 6
        config.pop("layer_types", None)
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = rope if rope.get("rope_type", "default") != "default" else None
    return config


def permuted(weight, heads):
    """Rows of queries and keys in GGML's order: neighbours turn together."""
    rest = weight.shape[1:]
    return weight.reshape(heads, 2, -1, *rest).swapaxes(1, 2).reshape(-1, *rest)


def write_experts(writer, name, value):
    """gpt-oss' experts, whose gates and ups take turns."""
    layer, kind = name.split(".")[2], "bias" if name.endswith("bias") else "weight"
    value = value.mT if kind == "weight" else value
    parts = {"down": value} if ".down_proj" in name else {"gate": value[:, ::2], "up": value[:, 1::2]}
    for part, tensor in parts.items():
        writer.add_tensor(f"blk.{layer}.ffn_{part}_exps.{kind}", tensor.contiguous().numpy())


def write_gguf(path, architecture, model, config):
    """What llama.cpp's converter writes for these families, as far as models need it."""
    writer = gguf.GGUFWriter(str(path), architecture)
    heads, layers = config.num_attention_heads, config.num_hidden_layers
    writer.add_block_count(layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_head_count(heads)
    if architecture == "gpt2":
        writer.add_feed_forward_length(4 * config.hidden_size)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
    else:
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        rope = config.rope_parameters.get("full_attention", config.rope_parameters)
        writer.add_rope_freq_base(rope["rope_theta"])
        if rope.get("rope_type") in ("linear", "yarn"):
            writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
            writer.add_rope_scaling_factor(rope["factor"])
        if rope.get("rope_type") == "yarn":
            writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        size = getattr(config, "head_dim", None) or config.hidden_size // heads
        writer.add_rope_dimension_count(size)
        writer.add_key_length(size)
        writer.add_value_length(size)
        if getattr(config, "sliding_window", None):
            writer.add_sliding_window(config.sliding_window)
        if rope.get("rope_type") == "llama3":
            base = 5e5 ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
            scaled = model.model.rotary_emb.inv_freq.double()
            writer.add_tensor("rope_freqs.weight", (base / scaled).float().numpy())
        if rope.get("rope_type") == "longrope":
            writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
            writer.add_rope_scaling_attn_factors(float(model.model.rotary_emb.attention_scaling))
            for which in ("short", "long"):
                writer.add_tensor(f"rope_factors_{which}.weight", np.array(rope[f"{which}_factor"], dtype=np.float32))
        if getattr(config, "attn_logit_softcapping", None):
            writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
            writer.add_final_logit_softcapping(config.final_logit_softcapping)
        for count, add in (("num_local_experts", writer.add_expert_count), ("num_experts", writer.add_expert_count),
                           ("num_experts_per_tok", writer.add_expert_used_count),
                           ("moe_intermediate_size", writer.add_expert_feed_forward_length)):
            if getattr(config, count, None):
                add(getattr(config, count))
        if architecture == "gpt-oss":
            writer.add_expert_feed_forward_length(config.intermediate_size)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH_NAMES and
                                     {v: k for k, v in gguf.MODEL_ARCH_NAMES.items()}[architecture], layers)
    kind_norms = architecture.startswith("gemma")
    tensors = load_file(path.parent / "model.safetensors")
    stacked = {}
    for name, tensor in tensors.items():
        value = tensor.float()
        if architecture == "gpt-oss" and ".mlp.experts." in name:
            write_experts(writer, name, value)
            continue
        if ".experts." in name:
            stem, _, rest = name.partition(".experts.")
            number, part = rest.split(".")[:2]
            stacked.setdefault(f"{stem}.experts.{part}", {})[int(number)] = value
            continue
        if architecture == "llama" and name.rsplit(".", 2)[-2] in ("q_proj", "k_proj"):
            value = permuted(value, heads if "q_proj" in name else config.num_key_value_heads)
        if architecture == "gpt2" and any(part in name for part in ("c_attn.weight", "c_fc.weight", "c_proj.weight")):
            value = value.T
        if kind_norms and "norm" in name:
            value = value + 1
        target = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if name.endswith(".sinks"):
            target += ".weight"
        if target is None:
            raise SystemExit(f"no name in GGUF files for {name}")
        writer.add_tensor(target, value.contiguous().numpy())
    for name, parts in stacked.items():
        value = torch.stack([parts[i] for i in range(len(parts))])
        writer.add_tensor(names.get_name(name) + ".weight", value.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


LETTERS = " abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,:?!<>\n"
TEMPLATE = ("{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
            "{% if add_generation_prompt %}<assistant>{% endif %}")


def write_talk(folder, model):
    """A tokenizer of letters, and what the model answers greedily: talk.json."""
    vocabulary = {token: i for i, token in enumerate(["<pad>", "<s>", "</s>", *LETTERS])}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<pad>"))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(["<pad>", "<s>", "</s>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"bos_token": "<s>", "eos_token": "</s>", "chat_template": TEMPLATE}) + "\n")
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)

    def answer(text, count):
        ids = torch.tensor([tokenizer.encode(text, add_special_tokens=False)])
        out = model.generate(ids, max_new_tokens=count, do_sample=False)[0, ids.shape[1]:]
        return tokenizer.decode(out, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    prompt, count, messages = "Once upon a time", 12, []
    talk = {"prompt": prompt, "tokens": count, "continued": answer(prompt, count), "turns": []}
    for line in ("Hello there", "and what then?"):
        messages.append({"role": "user", "content": line})
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        messages.append({"role": "assistant", "content": answer(text, count)})
        talk["turns"].append([line, messages[-1]["content"]])
    (folder / "talk.json").write_text(json.dumps(talk, indent=1) + "\n")


GGUF = {"llama": "llama", "llama3": "llama", "llama_linear": "llama", "mixtral": "llama", "qwen2": "qwen2",
        "qwen2_yarn": "qwen2", "qwen3": "qwen3", "qwen3moe": "qwen3moe", "phi3_long": "phi3", "gemma2": "gemma2",
        "gemma3": "gemma3", "gpt2": "gpt2", "gptoss": "gpt-oss"}


def check(stored, folder):
    """The greatest difference of a converted folder's logits from the stored ones, by the greatest of these."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager",
                                                              dtype=torch.float32).eval()
    wanted = load_file(stored / "expected.safetensors")
    got = expected(model, wanted["tokens"].long()[None])
    error = ((got - wanted["logits"]).abs().max() / wanted["logits"].abs().max()).item()
    print(f"{stored.name:14} {error:.1e}")
    if not error < 1e-5:
        raise SystemExit(f"{folder} computes something else than {stored}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=list(CASES))
    parser.add_argument("--check", nargs=2, metavar=("NAME", "FOLDER"))
    options = parser.parse_args()
    if options.check:
        check(options.folder / options.check[0], options.check[1])
        return
    for name in options.only:
        kind, changes = CASES[name]
        generator = torch.Generator().manual_seed(options.seed)
        config = configuration(kind, changes)
        config._attn_implementation = "eager"
        model = model_class(kind)(config).eval()
        randomise(model, generator)
        blocks = to_mxfp4(model, generator) if name.endswith("mxfp4") else {}
        folder = options.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        model.save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        stored = json.loads((folder / "config.json").read_text())
        if name in OLD:
            stored = to_old(stored)
        (folder / "config.json").write_text(json.dumps(stored, indent=1) + "\n")
        if blocks:
            store_blocks(folder, blocks)
        tokens = torch.randint(3, VOCABULARY, (1, PROMPT + STEPS), generator=generator)
        save_file({"tokens": tokens[0].to(torch.int32), "logits": expected(model, tokens)},
                  folder / "expected.safetensors")
        if name == "llama":
            write_talk(folder, model)
        if name in GGUF:
            write_gguf(folder / "model.gguf", GGUF[name], model, config)
        print(f"{name:14} {sum(f.stat().st_size for f in folder.iterdir()) / 1024:7.1f} KiB")


if __name__ == "__main__":
    main()
