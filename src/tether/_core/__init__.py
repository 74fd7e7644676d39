"""What every room uses: input validation, contexts, calls of policies, records, frames, ties."""
