"""Draft heads: small networks that guess the target's next tokens from its hidden states."""
