"""Between two policies: which draws are kept and which are not, along beta."""
