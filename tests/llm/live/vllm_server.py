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
    """A base model with its tokenizer, and the adapters `tuned` and `other`."""
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


class VLLM:
    """A server that runs while the `with` block does: `base` and the adapter `tuned`.

    The processor's build of vLLM 0.32 is wrong here: in a batch of both, requests for the base
    model get the adapter's weights.
    """

    def __init__(self, folder, *options):
        self.folder = folder
        with closing(socket.create_server(("127.0.0.1", 0))) as found:
            self.port = found.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self._command = [
            PROGRAM, "serve", str(folder / "base"), "--served-model-name", "base",
            "--host", "127.0.0.1", "--port", str(self.port), "--dtype", "float32",
            "--enforce-eager", "--max-model-len", str(CONTEXT),
            # without target modules, prompt_logprobs beside adapters end vLLM 0.32
            "--lora-target-modules", "q_proj", "v_proj", "--enable-lora", "--max-loras", "1",
            "--max-lora-rank", "8", "--lora-modules", f"tuned={folder / 'tuned'}", *options,
        ]  # fmt: skip
        self._log = folder / f"vllm-{self.port}.log"

    def __enter__(self):
        ones = ("OMP_NUM_THREADS", "HF_HUB_OFFLINE", "VLLM_NO_USAGE_STATS")
        settings = dict.fromkeys((*ones, "VLLM_ALLOW_RUNTIME_LORA_UPDATING"), "1")
        settings["VLLM_CPU_KVCACHE_SPACE"] = "2"
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
        self.post("load_lora_adapter", {"lora_name": name, "lora_path": path})

    def unload(self, name):
        """Serve no adapter under a name."""
        self.post("unload_lora_adapter", {"lora_name": name})

    def post(self, path, body):
        """Ask for something that must be done."""
        content, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/{path}", content, headers)
        urllib.request.urlopen(request, timeout=120).close()  # another status is an error
