"""A Llama of transformers with an encoding of posbench, trained by transformers' own Trainer.

    python examples/hf_trainer.py --encoding alibi --extension direct --steps 300

Llama's rotary embedding is replaced by one that turns nothing, and its attention by that of the
encoding. `from posbench import extended` is for a model that has been trained with its own RoPE.
"""

import argparse
import inspect
import tempfile

import torch
from transformers import (
    AttentionInterface,
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainingArguments,
)

import posbench

HEADS, KV_HEADS, HEAD_WIDTH, TRAINED = 4, 2, 16, 64


class Still(torch.nn.Module):
    """The rotary embedding of no rotation."""

    def forward(self, x, position_ids):
        cos = torch.ones(*position_ids.shape, HEAD_WIDTH, dtype=x.dtype, device=x.device)
        return cos, torch.zeros_like(cos)


def attention(layer, q, k, v, mask, **_):
    return layer.position(q, k, v).transpose(1, 2).contiguous(), None


AttentionInterface.register("by_position", attention)


def llama(encoding: str) -> LlamaForCausalLM:
    width = HEADS * HEAD_WIDTH
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=TRAINED,
        attn_implementation="by_position",
        use_cache=False,
    )
    model = LlamaForCausalLM(config)
    model.model.rotary_emb = Still()
    for layer in model.model.layers:
        made = getattr(posbench, encoding)(HEADS, HEAD_WIDTH, TRAINED, num_kv_heads=KV_HEADS)
        layer.self_attn.position = made
    return model


def main(arguments: list[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoding", default="rope")
    parser.add_argument("--extension", default="yarn")
    parser.add_argument("--steps", type=int, default=300)
    chosen = parser.parse_args(arguments)
    torch.manual_seed(0)
    text = torch.tensor(list(inspect.getsource(argparse).encode()))
    model = llama(chosen.encoding)

    def pieces(length: int) -> list[dict[str, torch.Tensor]]:
        return [{"input_ids": each, "labels": each} for each in text.unfold(0, length, 37)]

    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            folder,
            max_steps=chosen.steps,
            per_device_train_batch_size=16,
            learning_rate=3e-3,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            save_strategy="no",
        )
        held_out = len(pieces(TRAINED)) // 10
        trainer = Trainer(model, settings, train_dataset=pieces(TRAINED)[:-held_out])
        trainer.train()

        def loss(length: int) -> float:
            return trainer.evaluate(pieces(length)[-held_out // 10 :])["eval_loss"]

        found = {"1x": loss(TRAINED), "4x": loss(4 * TRAINED)}
        for layer in model.model.layers:
            unbound = getattr(posbench, chosen.extension)()
            layer.self_attn.position = unbound.extend(layer.self_attn.position, 4 * TRAINED)
        found["4x, extended"] = loss(4 * TRAINED)
    for name, value in found.items():
        print(f"loss at {name}: {value:.3f}")
    return found


if __name__ == "__main__":
    main()
