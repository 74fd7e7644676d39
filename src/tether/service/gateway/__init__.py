"""A gateway for language models: two upstreams that speak OpenAI's protocol, behind one release."""
