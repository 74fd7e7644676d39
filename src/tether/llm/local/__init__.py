"""Language models in this process: transformers models with PEFT adapters as policies."""
