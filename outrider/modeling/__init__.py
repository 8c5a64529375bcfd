"""Networks: tensors in, tensors out. Never sockets, sessions or settings."""
