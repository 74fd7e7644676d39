"""What every room uses: validation of input, contexts, calls to policies, records, frames, ties."""
