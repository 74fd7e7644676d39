"""Scores of given completions under two language models, by Ray Data's vLLM processor.

    python score.py rows/ scored/ --safe MODEL --optimized MODEL

Rows have two columns of token ids: `prompt_tokens`, and `completion_tokens`, which are the actions,
with the end token where the model ended by itself and padded with −1. The new files have
`log_safe` and `log_optimized` beside all columns of the rows, for `tether.Log.scan`.

Needs `ray[data]` and `vllm`, and not tether. The scores are those at temperature 1 without top-p
and top-k: a policy that samples in another way has other log-probabilities.
"""

import argparse

import ray
from ray.data.llm import build_processor, vLLMEngineProcessorConfig

ASKED = ("tokenized_prompt", "sampling_params")
SCORING = {"max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0, "detokenize": False}
"""The log-probability of each token of the prompt, and one token that is thrown away."""


def completion_of(row):
    """The tokens of the completion, without padding."""
    return [int(token) for token in row["completion_tokens"] if token >= 0]


def scored(data, model, column, names, device, **engine):
    """The dataset with the log-probability of every completion under a model."""

    def ask(row):
        prompt = [int(token) for token in row["prompt_tokens"] if token >= 0]
        return {**row, "tokenized_prompt": prompt + completion_of(row), "sampling_params": SCORING}

    def answer(row):
        tokens = completion_of(row)
        steps = row["prompt_logprobs"][-len(tokens) :]
        total = sum(step[token]["logprob"] for step, token in zip(steps, tokens, strict=True))
        return {**{name: row[name] for name in names}, column: total}

    config = vLLMEngineProcessorConfig(
        model_source=model,
        engine_kwargs=engine,
        placement_group_config={"bundle_per_worker": {device: 1}},
        chat_template_stage=False,  # rows have the tokens that the model saw
        tokenize_stage=False,
        detokenize_stage=False,
        log_engine_metrics=False,
    )
    return build_processor(config, preprocess=ask, postprocess=answer)(data)


def main():
    """Score all rows under both models, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows")
    parser.add_argument("out")
    parser.add_argument("--safe", required=True)
    parser.add_argument("--optimized", required=True)
    parser.add_argument("--device", default="GPU", choices=["GPU", "CPU"])
    parser.add_argument("--max-model-len", type=int)
    given = parser.parse_args()
    engine = {} if given.max_model_len is None else {"max_model_len": given.max_model_len}
    if given.device == "CPU":
        engine |= {"dtype": "float32", "enforce_eager": True}
    data = ray.data.read_parquet(given.rows)
    names = list(data.schema().names)
    for model, column in ((given.safe, "log_safe"), (given.optimized, "log_optimized")):
        # materialized, so that the first engine has ended when the second one starts
        data = scored(data, model, column, names, given.device, **engine).materialize()
        names.append(column)
    data.write_parquet(given.out)


if __name__ == "__main__":
    main()
