"""Policies from models and adapters that are saved in folders."""

import pytest

pytest.importorskip("transformers", reason="needs tether[llm]")
pytest.importorskip("peft", reason="needs tether[llm]")

from tests.llm import tiny_models
from tether.llm.local.model_folders import check_folder, load_policies


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    model = tiny_models.llama()
    model.save_pretrained(folder / "safe")
    tiny_models.tokenizer().save_pretrained(folder / "safe")
    tiny_models.llama(seed=1).save_pretrained(folder / "other")
    tiny_models.with_adapters(model, "optimized").save_pretrained(str(folder / "lora"))
    deeper = tiny_models.with_adapters(tiny_models.llama(layers=3), "optimized")
    deeper.save_pretrained(str(folder / "deeper"))
    return folder


def load(folder, optimized):
    paths = str(folder / "safe"), str(folder / optimized)
    return load_policies(*paths, None, None, {"max_new_tokens": 4})


def test_an_adapter_shares_the_weights_of_the_safe_model(folder):
    safe, optimized = load(folder, "lora/optimized")
    assert (safe.adapter, optimized.adapter) == (None, "optimized")
    assert safe.shares_weights(optimized)


def test_two_models_have_their_own_weights_and_share_a_tokenizer(folder):
    safe, optimized = load(folder, "other")
    assert safe.model is not optimized.model
    assert safe.tokenizer is optimized.tokenizer


def test_an_adapter_of_another_model_is_refused(folder):
    with pytest.raises(ValueError, match="no layer for 4 of its weights, such as base_model"):
        load(folder, "deeper/optimized")


def test_a_missing_folder_is_refused(folder):
    with pytest.raises(ValueError, match="--optimized must be a folder without --base-url, but"):
        load(folder, "nowhere")
    with pytest.raises(ValueError, match="--tokenizer must be a folder, but 'nowhere' does not"):
        check_folder("--tokenizer", "nowhere")
