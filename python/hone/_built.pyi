"""What the wheel was built with; the build writes it."""
TORCH: str
