"""Parts of training."""
