"""truedraft: run a speculative-decoding pair the way its drafter was trained."""
