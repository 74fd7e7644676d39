"""Tiny models with random weights and tokenizers built in code: real ones, in milliseconds."""

import functools
import itertools
import string

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

torch.set_num_threads(1)  # tiny models gain nothing from threads, and on a busy machine lose much

END = 0
LETTERS = ["<end>", "<bos>", *string.ascii_lowercase, *string.ascii_uppercase, " ", ".", "?"]
SIZE = len(LETTERS)


def tokenizer(*, lossy=False, special="$A"):
    """One token per letter; a lossy tokenizer has no capitals and writes them as `?`.

    `special` is the template of a text with special tokens.
    """
    letters = [letter for letter in LETTERS if not (lossy and letter.isupper())]
    vocabulary = {letter: index for index, letter in enumerate(letters)}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    made.decoder = decoders.Fuse()
    made.post_processor = processors.TemplateProcessing(
        single=special, special_tokens=[("<end>", 0), ("<bos>", 1)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>", bos_token="<bos>")


def _sizes(vocabulary, scale=0.5):
    special = {"eos_token_id": END, "bos_token_id": 1}
    return {"vocab_size": vocabulary, "initializer_range": scale, **special}


WIDE = {"hidden_size": 16, "intermediate_size": 32}
WIDE |= {"num_hidden_layers": 2, "num_attention_heads": 2}


def llama(vocabulary=SIZE, *, seed=0, scale=0.5, positions=64):
    torch.manual_seed(seed)
    own = {"num_key_value_heads": 1, "max_position_embeddings": positions, "pad_token_id": None}
    return LlamaForCausalLM(LlamaConfig(**_sizes(vocabulary, scale), **WIDE, **own)).eval()


def neox(vocabulary=SIZE, *, seed=0):
    torch.manual_seed(seed)
    config = GPTNeoXConfig(**_sizes(vocabulary), **WIDE, max_position_embeddings=64)
    return GPTNeoXForCausalLM(config).eval()


def gpt2(vocabulary=SIZE, *, seed=0):
    torch.manual_seed(seed)
    config = GPT2Config(**_sizes(vocabulary), n_positions=64, n_embd=16, n_layer=2, n_head=2)
    return GPT2LMHeadModel(config).eval()


def with_adapters(model, *names, dropout=0.0, **options):
    """The model with LoRA adapters that change its distribution."""
    from peft import get_peft_model

    options |= {"lora_dropout": dropout}
    wrapped = get_peft_model(model, lora(**options), adapter_name=names[0])
    for name in names[1:]:
        wrapped.add_adapter(name, lora(**options))
    generator = torch.Generator().manual_seed(7)
    for name, parameter in wrapped.named_parameters():
        if "lora_B" in name:
            parameter.data = torch.randn(parameter.shape, generator=generator)
    return wrapped


@torch.no_grad()
def trained(model):
    """The model with every trainable weight changed."""
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.add_(torch.randn(parameter.shape, generator=generator))
    return model


def every_completion(vocabulary, width, ends):
    """All possible completions: those that ended and those that were cut off."""
    inner = [token for token in range(vocabulary) if token not in ends]
    rows = [
        (*before, end)
        for size in range(width)
        for before in itertools.product(inner, repeat=size)
        for end in ends
    ]
    rows += itertools.product(inner, repeat=width)
    return [list(row) + [-1] * (width - len(row)) for row in rows]


def one_by_one(model, prompt, action, temperature=1.0):
    """The oracle: one pass per token without cache, padding or batch, in float64."""
    seen, total = list(prompt), 0.0
    for token in action:
        if token == -1:
            break
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([seen]), use_cache=False).logits[0, -1]
        total += float(torch.log_softmax(logits.double() / temperature, dim=-1)[token])
        seen.append(int(token))
    return total


def policy(model, adapter=None, **options):
    """A policy of four tokens."""
    from tether.llm import CausalPolicy

    options = {"max_new_tokens": 4, **options}
    return CausalPolicy(model, shared_tokenizer(), adapter=adapter, **options)


@functools.cache
def shared_tokenizer():
    """One tokenizer, so that policies can share passes."""
    return tokenizer()


def lora(**options):
    """A small adapter, as PEFT describes it."""
    from peft import LoraConfig

    return LoraConfig(r=2, target_modules=["q_proj", "v_proj"], **options)
