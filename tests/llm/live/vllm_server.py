"""A live vLLM on loopback with a tiny random model and two adapters, for `make test-vllm`."""

import json
import os
import socket
import subprocess
import time
import urllib.request
from contextlib import closing

import torch
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from tests.llm.live.live_policies import END, PROGRAM

WORDS, CONTEXT = 320, 128
START_SECONDS, STOP_SECONDS = 300, 30


def make_models(folder):
    """A base model with its tokenizer, the adapters `tuned` and `other`, and `tuned` merged."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=WORDS,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,  # of 32 dimensions, the fewest that vLLM has on a processor
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        bos_token_id=1,
        eos_token_id=END,
        pad_token_id=0,
        tie_word_embeddings=False,
    )
    base = LlamaForCausalLM(config)
    with torch.no_grad():
        for weights in base.parameters():
            if weights.ndim > 1:
                weights.normal_(0, 0.25)
    base.save_pretrained(folder / "base")
    words = ["<pad>", "<bos>", "<end>", *(f"w{number}" for number in range(3, WORDS))]
    made = Tokenizer(models.WordLevel({word: k for k, word in enumerate(words)}, "<pad>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {"eos_token": "<end>", "bos_token": "<bos>", "pad_token": "<pad>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, **special)
    tokenizer.chat_template = "{% for each in messages %}{{ each['content'] }} {% endfor %}"
    tokenizer.save_pretrained(folder / "base")
    for seed, name in enumerate(("tuned", "other"), start=1):
        torch.manual_seed(seed)
        lora = LoraConfig(r=8, lora_alpha=8, target_modules=["q_proj", "v_proj"])
        adapted = get_peft_model(LlamaForCausalLM.from_pretrained(folder / "base"), lora)
        with torch.no_grad():
            for key, weights in adapted.named_parameters():
                if "lora" in key:
                    weights.normal_(0, 0.12)
        adapted.save_pretrained(folder / name)
        if name == "tuned":
            adapted.merge_and_unload().save_pretrained(folder / "merged")
            tokenizer.save_pretrained(folder / "merged")


class VLLM:
    """A server that runs while the `with` block does: `base` and the adapter `tuned`.

    The processor's build of vLLM 0.32 is wrong here: in a batch of both, requests for the base
    model get the adapter's weights. With `alone=("merged", "tuned")` it serves one folder under
    one name, without adapters, and is right.
    """

    def __init__(self, folder, *options, target_modules=("q_proj", "v_proj"), alone=None):
        self.folder = folder
        with closing(socket.create_server(("127.0.0.1", 0))) as found:
            self.port = found.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        model, name = alone or ("base", "base")
        adapters = () if alone else (
            # without target modules, prompt_logprobs beside adapters end vLLM 0.32
            *(("--lora-target-modules", *target_modules) if target_modules else ()),
            "--enable-lora", "--max-loras", "1", "--max-lora-rank", "8",
            "--lora-modules", f"tuned={folder / 'tuned'}",
        )  # fmt: skip
        self._command = [
            PROGRAM, "serve", str(folder / model), "--served-model-name", name,
            "--host", "127.0.0.1", "--port", str(self.port), "--dtype", "float32",
            "--enforce-eager", "--max-model-len", str(CONTEXT), *adapters, *options,
        ]  # fmt: skip
        self._log = folder / f"vllm-{self.port}.log"

    def __enter__(self):
        settings = {
            "VLLM_CPU_KVCACHE_SPACE": "2",
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command, env={**os.environ, **settings}, stdout=log, stderr=log
            )
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/models", timeout=5).close()
                return self
            except OSError:
                assert self._process.poll() is None, self._log.read_text()[-3000:]
                assert time.monotonic() < end, self._log.read_text()[-3000:]
                time.sleep(0.5)

    def __exit__(self, *error):
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def load(self, name, weights=None):
        """Serve an adapter under a name."""
        path = str(self.folder / (weights or name))
        assert self.post("load_lora_adapter", {"lora_name": name, "lora_path": path})[0] == 200

    def unload(self, name):
        """Serve no adapter under a name."""
        assert self.post("unload_lora_adapter", {"lora_name": name})[0] == 200

    def post(self, path, body):
        """The status and the content of an answer."""
        content = json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.url}/{path}", content, {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                text = answer.read().decode()
                return answer.status, json.loads(text) if text.startswith("{") else text
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read().decode())
