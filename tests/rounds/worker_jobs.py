"""What several processes do at once on one store, each writing down what became of it."""
