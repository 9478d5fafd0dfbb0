"""Small checkpoints with random weights, which the real code reads."""

import json
import string
from pathlib import Path

HIDDEN = 32


def write_bert(folder: Path, *, seed: int, labels: int | None = None) -> Path:
    """Write a BERT with two small layers and random weights; with `labels`, a classifier."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertModel

    folder.mkdir(parents=True)
    signs = [*string.ascii_lowercase, *string.digits]
    words = ["aspirin", "stroke", "risk", "the", "of", "title", "text", "case", *string.punctuation]
    vocabulary = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *words,
        *signs,
        *("##" + sign for sign in signs),
    ]
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    tokenizer = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 512}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        initializer_range=0.3,
        num_labels=labels or 2,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = BertModel(config) if labels is None else BertForSequenceClassification(config)
    model.save_pretrained(folder)
    return folder


def write_sentence_transformer(
    folder: Path, *, seed: int, prompts: dict[str, str] | None = None
) -> Path:
    """Write a sentence-transformers folder like BGE's: BERT, and unit vectors of [CLS]."""
    write_bert(folder, seed=seed)
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    listing = [
        {
            "idx": index,
            "name": str(index),
            "path": path,
            "type": f"sentence_transformers.models.{kind}",
        }
        for index, (path, kind) in enumerate(modules)
    ]
    pooling = {
        "word_embedding_dimension": HIDDEN,
        "pooling_mode_cls_token": True,
        "pooling_mode_mean_tokens": False,
    }
    (folder / "1_Pooling").mkdir()
    for name, content in {
        "modules.json": listing,
        "1_Pooling/config.json": pooling,
        "sentence_bert_config.json": {"max_seq_length": 128, "do_lower_case": False},
        "config_sentence_transformers.json": {"prompts": prompts or {}},
    }.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder
